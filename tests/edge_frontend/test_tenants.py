from __future__ import annotations

import json
from typing import Any

import pytest

from edge_frontend.limits import NO_LIMITS, Limits
from edge_frontend.tenants import Tenants
from edge_frontend.wrong import Wrong


def read(document: Any) -> Tenants:
    return Tenants.from_json(json.dumps(document))


def test_each_tenant_has_its_limits_and_the_star_is_everybody_else() -> None:
    found = read({"acme": {"rpm": 5, "par": 2}, "login~acme": {"tpm": 7}, "*": {"month": 9}})
    assert Limits(rpm=5, par=2) == found.limits("acme"), "the star's are not added"
    assert Limits(tpm=7) == found.limits("login~acme")
    assert Limits(month=9) == found.limits("somebody")


def test_who_is_not_named_has_no_limits_and_one_may_be_let_off() -> None:
    assert NO_LIMITS == read({"acme": {"rpm": 5}}).limits("other")
    assert NO_LIMITS == read({"*": {"rpm": 5}, "ours": {}}).limits("ours")
    assert NO_LIMITS == Tenants().limits("acme")


def test_every_wrong_tenant_is_named_at_once() -> None:
    wrong = {"a": {"rpm": -1}, "b": {"rps": 1}, "c d": {}, "e": [], "f": {"par": 2**54}, "ok": {}}
    with pytest.raises(Wrong) as raised:
        read(wrong)
    named = [problem.split(":")[0].split(" is no")[0] for problem in raised.value.problems]
    assert ["a", "b", "'c d'", "e", "f"] == named


@pytest.mark.parametrize("text", ["", "[]", "7", "{", "[" * 100_000])
def test_what_is_no_table_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a JSON object of tenants"):
        Tenants.from_json(text)
