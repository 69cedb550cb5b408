"""The gate's settings from variables."""

from __future__ import annotations

import pytest

from gpu_backend.gate.settings import PREFIX, Settings, SettingsError, from_environment

GOOD = {
    "SECRET": "s" * 32,
    "SECRET_PREVIOUS": "p" * 40,
    "REDIS": "redis://:pass@127.0.0.1:6379/0",
    "REDIS_TIMEOUT_MS": "50",
    "WITHOUT_REDIS": "closed",
    "MAX_RUNNING": "8",
    "MAX_WAITING": "0",
    "LEASE_S": "20",
}


def read(**given: str) -> Settings:
    return from_environment({PREFIX + name: value for name, value in given.items()})


def test_nothing_set_is_a_gate_that_is_off() -> None:
    assert Settings() == from_environment({"PATH": "/bin", "NEARFAR_STORE": "none"})


def test_every_setting_is_read() -> None:
    expected = Settings(
        secrets=(b"s" * 32, b"p" * 40),
        redis="redis://:pass@127.0.0.1:6379/0",
        redis_timeout_ms=50,
        without_redis="closed",
        max_running=8,
        max_waiting=0,
        lease_s=20,
    )
    assert expected == read(**GOOD)


def test_an_empty_variable_is_none() -> None:
    assert Settings() == read(SECRET="", REDIS="")


def test_every_wrong_one_is_named_at_once_and_no_value_is_told() -> None:
    wrong = {
        "SECRET": "canary",
        "SECRET_PREVIOUS": "canary",
        "REDIS": "http://canary:1/0",
        "REDIS_TIMEOUT_MS": "0",
        "WITHOUT_REDIS": "canary",
        "MAX_RUNNING": "0",
        "MAX_WAITING": "-1",
        "LEASE_S": "2.5",
        "SECRTE": "canary",
    }
    with pytest.raises(SettingsError) as caught:
        read(**wrong)
    assert {PREFIX + name for name in wrong} == set(caught.value.problems)
    assert "canary" not in str(caught.value)


def test_a_previous_secret_alone_is_a_mistake() -> None:
    with pytest.raises(SettingsError, match="needs a current secret"):
        read(SECRET_PREVIOUS="p" * 32)


def test_no_secret_is_shown() -> None:
    shown = repr(read(**GOOD))
    assert "ssss" not in shown
    assert "pass" not in shown
