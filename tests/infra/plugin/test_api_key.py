"""The first API key."""

from __future__ import annotations

import time
from typing import Any

import pytest

from edge_frontend import keys
from nearfar_infra.plugin.api_key import ApiKey
from nearfar_infra.plugin.kinds import KindError

KIND = ApiKey()
SECRET = "s" * 40


def inputs(**change: Any) -> dict[str, Any]:
    found, problems = KIND.check({"operatorSecret": SECRET, "tenant": "acme", **change})
    assert {} == dict(problems)
    return dict(found)


def test_the_key_is_one_that_an_edge_of_this_secret_takes() -> None:
    made = KIND.create(inputs(days=7))
    claims = keys.verify(made.outputs["key"], (SECRET,), time.time())
    assert (made.id, "acme", ("chat", "trace")) == (
        claims.key_id,
        claims.tenant,
        claims.permissions,
    )
    assert made.outputs["expiresAt"] == claims.expires_at


def test_an_unchanged_key_stays() -> None:
    made = KIND.create(inputs())
    assert () == KIND.diff(made.outputs, inputs(), inputs()).properties


@pytest.mark.parametrize(
    "change", [{"operatorSecret": "t" * 40}, {"tenant": "other"}, {"rotation": "2"}]
)
def test_a_change_makes_another_key(change: dict[str, Any]) -> None:
    made = KIND.create(inputs())
    difference = KIND.diff(made.outputs, inputs(), inputs(**change))
    assert tuple(change) == difference.replaces


def test_a_key_that_ends_soon_is_made_anew() -> None:
    made = KIND.create(inputs(days=10))
    soon = {**made.outputs, "expiresAt": time.time() + 80_000}
    assert ("days",) == KIND.diff(soon, inputs(days=10), inputs(days=10)).replaces


def test_a_secret_that_is_too_short_is_told_and_not_shown() -> None:
    with pytest.raises(KindError, match="at least 32 characters") as caught:
        KIND.create(inputs(operatorSecret="short-canary"))
    assert "short-canary" not in str(caught.value)
