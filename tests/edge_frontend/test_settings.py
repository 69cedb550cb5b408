from __future__ import annotations

import json
import re
from dataclasses import fields
from typing import Any

import pytest

from edge_frontend import settings
from edge_frontend.errors import Misconfigured
from edge_frontend.settings import Settings, from_variables
from fakes.edge import ROUTES, SECRET

GIVEN = {"routes": json.dumps(ROUTES), "key_secret": SECRET}
WRONG: dict[str, tuple[str, ...]] = {
    "routes": ("canary", "{}"),
    "key_secret": ("canary",),
    "key_secret_previous": ("canary",),
    "upstream_keys": ("canary", '["canary"]', '{"gpu":1}', '{"gpu":"canary\\n"}', '{"canary":"k"}'),
    "store": (
        "canary", "http://canary", "kv:", "redis://", "redis://canary:no", "redis://canary:99999",
        "redis://canary/db", "redis://[canary", "redis:canary",
    ),
    "store_timeout_ms": ("canary", "0", "5001", "-1", "1.5", "٣", "9" * 5_000),
    "cache_ttl_s": ("canary", "0", "2592001"),
    "cache_max_bytes": ("canary", "999", "100000001"),
    "follow_ms": ("canary", "600001"),
    "lease_ms": ("canary", "499", "60001"),
    "template": ("canary",),
    "max_tokens": ("canary", "0", "1000001"),
    "max_body_bytes": ("canary", "999", "100000001"),
    "connect_timeout_ms": ("canary", "0", "86400001"),
    "first_byte_timeout_ms": ("canary", "0", "86400001"),
    "between_bytes_timeout_ms": ("canary", "0", "86400001"),
    "gate_secret": ("canary",),
    "deadline_ms": ("canary", "86400001"),
    "guardrails": ("canary",),
    "issuers": ("canary", '["canary"]', '{"login": 1}', '{"login": {"issuer": ""}}'),
    "tenants": ("canary", '["canary"]', '{"acme": {"canary": 1}}', '{"acme": {"rpm": "canary"}}'),
    "origins": (
        "canary", "https://canary/", "https://canary/x", "https://Canary", "https://", "**",
        "https://a.test,canary", "https://canary.test:port",
    ),
    "trusted_hops": ("canary", "-1", "11"),
}  # fmt: skip
ANYTHING = {"environment", "region", "categories"}


def refusal(**changes: str) -> str:
    with pytest.raises(Misconfigured) as caught:
        from_variables(GIVEN | changes)
    assert 503 == caught.value.status
    return caught.value.message


def test_every_setting_is_refused_somewhere_or_takes_any_text() -> None:
    assert set(settings.names()) == set(WRONG) | ANYTHING


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, values in WRONG.items() for value in values]
)
def test_a_wrong_value_is_refused_by_its_variable_and_not_repeated(name: str, value: str) -> None:
    message = refusal(**{name: value})
    assert f"NEARFAR_{name.upper()} " in message
    named = set(re.findall(r"NEARFAR_\w+", message))
    assert {f"NEARFAR_{name.upper()}"} == named or name == "upstream_keys"
    assert "canary" not in message
    assert "999999" not in message


def test_every_wrong_variable_is_named_at_once() -> None:
    message = refusal(**{name: values[0] for name, values in WRONG.items()})
    for name in WRONG:
        assert f"NEARFAR_{name.upper()} " in message
    assert "canary" not in message


def test_everything_that_is_wrong_inside_of_one_variable_is_named_at_once() -> None:
    routes = {
        "version": "1",
        "upstreams": {"a": {"url": "ftp://x"}, "b": 7, "c": {"url": "http://c", "kind": "x"}},
        "models": {"m": {"upstream": "z", "context_tokens": -1}, "n": {"upstream": "a"}, "o": []},
    }
    issuer = {"issuer": "", "audience": [], "leeway_s": 301, "secret": "x"}
    message = refusal(
        routes=json.dumps(routes),
        issuers=json.dumps({"login": issuer, "b d": {}}),
        tenants='{"acme": {"rpm": -1, "x": 1}, "other": {"par": "many"}}',
    )
    for named in (
        "upstream 'a'", "upstream 'b'", "upstream 'c'", "model 'm' names", "of model 'm'",
        "model 'o'",
        "login: 'secret'", "login: issuer", "login: audience", "login: leeway_s",
        "under names of letters", "acme: limits", "other: par",
    ):  # fmt: skip
        assert 1 == message.count(named), (named, message)
    assert "model 'n'" not in message, "it is right, only its upstream is not"


@pytest.mark.parametrize("value", ["", " ", "\n"])
@pytest.mark.parametrize("name", ["routes", "key_secret"])
def test_what_must_be_set_and_is_not_is_named(name: str, value: str) -> None:
    assert f"settings: NEARFAR_{name.upper()} is not set" == refusal(**{name: value})


def test_nothing_set_names_both() -> None:
    with pytest.raises(Misconfigured) as caught:
        from_variables({})
    assert "settings: NEARFAR_KEY_SECRET is not set; NEARFAR_ROUTES is not set" == (
        caught.value.message
    )


def test_an_empty_value_counts_as_not_set() -> None:
    empty = dict.fromkeys(settings.names(), " ") | GIVEN
    assert from_variables(GIVEN) == from_variables(empty)


def test_a_key_for_an_upstream_that_is_not_there_is_refused() -> None:
    message = refusal(upstream_keys='{"other":"k"}')
    assert "NEARFAR_UPSTREAM_KEYS names an upstream that NEARFAR_ROUTES has not" in message


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("store", "redis://:pass@host:6379/2", "redis://:pass@host:6379/2"),
        ("store", "redis://host", "redis://host"),
        ("store", "kv:default", "kv:default"),
        ("store", "none", "none"),
        ("store_timeout_ms", "50", 50),
        ("follow_ms", "0", 0),
        ("template", "brief@1", "brief@1"),
        ("categories", " a, b ,,c", ("a", "b", "c")),
        ("upstream_keys", '{"gpu":"k"}', {"gpu": "k"}),
        ("region", " eu ", "eu"),
        ("origins", "*", ("*",)),
        ("origins", "https://a.test, http://[::1]:8080", ("https://a.test", "http://[::1]:8080")),
        ("guardrails", "standard@1", "standard@1"),
        ("trusted_hops", "2", 2),
    ],
)
def test_a_right_value_is_read(name: str, text: str, value: Any) -> None:
    assert value == getattr(from_variables(GIVEN | {name: text}), name)


def test_the_defaults_pass_their_own_checks() -> None:
    read = from_variables(GIVEN)
    for item in fields(Settings):
        default = getattr(read, item.name)
        if item.name in settings._READERS and isinstance(default, int | str) and default:
            if item.name == "routes":
                continue
            assert default == settings._READERS[item.name](str(default)), item.name


def test_the_previous_secret_is_valid_beside_the_current() -> None:
    old = "another secret of the operator, old"
    assert (SECRET,) == from_variables(GIVEN).key_secrets
    assert (SECRET, old) == from_variables(GIVEN | {"key_secret_previous": old}).key_secrets


def test_the_same_settings_have_the_same_fingerprint_and_secrets_are_not_in_it() -> None:
    base = from_variables(GIVEN | {"upstream_keys": '{"gpu":"a"}', "store": "redis://:a@h"})
    same = from_variables(
        GIVEN
        | {"key_secret": "x" * 40, "upstream_keys": '{"gpu":"b"}', "store": "redis://:b@h"}
        | {"region": " "}
    )
    assert base.fingerprint == same.fingerprint
    assert base.fingerprint != from_variables(GIVEN | {"region": "eu"}).fingerprint
    assert 12 == len(base.fingerprint)


def test_no_secret_stands_in_the_text_of_settings() -> None:
    read = from_variables(
        {"routes": GIVEN["routes"], "key_secret": "canary" * 6, "key_secret_previous": "canary" * 7}
        | {"upstream_keys": '{"gpu":"canary"}', "store": "redis://:canary@h"}
    )
    assert "canary" not in repr(read)
    secret = {item.name for item in fields(Settings) if not item.repr}
    assert settings.SECRET_NAMES == secret
