"""nearfar usage, over a real Redis that the gate's own code wrote."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from fakes.redis_process import RedisServer
from gpu_backend.gate.scripts import usage_key
from gpu_backend.gate.usage import month_of
from nearfar import gate

MONTH = "2025-01"


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    running = RedisServer(tmp_path_factory.mktemp("redis"))
    running.start()
    with redis.Redis.from_url(running.url) as client:
        for owner, requests in (("acme/k1", 3), ("login~acme/login~0123", 5)):
            counts = {"requests": requests, "generated": 10 * requests, "estimated": 1, "hits": 2}
            mapping = {f"{owner}/{name}": number for name, number in counts.items()}
            client.hset(usage_key(MONTH), mapping=mapping)
    yield running
    running.stop()


def test_every_key_has_a_row_and_all_of_them_a_sum(
    run: Callable[..., Any], store: RedisServer
) -> None:
    ran = run("usage", "--month", MONTH, "--redis", store.url)
    assert 0 == ran.code
    head, first, second, total = (line.split() for line in ran.out.splitlines())
    assert [
        "TENANT",
        "KEY",
        "ID",
        "REQUESTS",
        "ABORTED",
        "FAILED",
        "GENERATED",
        "ESTIMATED",
    ] == head[:8]
    assert ["acme", "k1", "3", "0", "0", "30", "1", "0", "2", "0"] == first
    assert ["login~acme", "login~0123", "5", "0", "0", "50", "1", "0", "2", "0"] == second
    assert ["all", "8", "0", "0", "80", "2", "0", "4", "0"] == total


def test_json_is_one_line_with_every_count(run: Callable[..., Any], store: RedisServer) -> None:
    document = run("usage", "--month", MONTH, "--redis", store.url, "--json").document
    assert MONTH == document["month"]
    assert ["acme", "login~acme"] == [row["tenant"] for row in document["usage"]]
    assert {"key": "k1", "generated": 30, "estimated": 1, "cached": 0}.items() <= (
        document["usage"][0].items()
    )


def test_this_month_is_the_default_and_may_be_empty(
    run: Callable[..., Any], store: RedisServer
) -> None:
    ran = run("usage", "--redis", store.url)
    assert 0 == ran.code
    assert f"nothing was used in {month_of(time.time())}" in ran.err
    assert [] == run("usage", "--redis", store.url, "--json").document["usage"]


@pytest.mark.parametrize("month", ["2026", "2026-13", "2026-1", "soon", "2026-11-01"])
def test_what_is_no_month_is_bad_input(run: Callable[..., Any], month: str) -> None:
    ran = run("usage", "--month", month)
    assert (2, "") == (ran.code, ran.out)
    assert "is not a month" in ran.err


def test_a_redis_that_is_away_or_no_stack_is_missing(run: Callable[..., Any]) -> None:
    ran = run("usage", "--redis", "redis://:hush@127.0.0.1:1/0")
    assert 3 == ran.code
    assert "does not answer" in ran.err
    assert "hush" not in ran.err
    assert 3 == run("usage").code


@pytest.mark.parametrize(
    ("store_url", "beside"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/1"),
        ("redis://:p@127.0.0.1:6379/3", "redis://:p@127.0.0.1:6379/4"),
        ("redis://127.0.0.1", "redis://127.0.0.1/1"),
    ],
)
def test_the_gate_has_the_database_beside_the_stores(store_url: str, beside: str) -> None:
    assert beside == gate.database_beside(store_url)


def test_public_settings_of_the_caller_reach_the_gate_and_secret_ones_do_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("NEARFAR_GATE_MAX_RUNNING", "3")
    monkeypatch.setenv("NEARFAR_GATE_SECRET", "x" * 40)
    monkeypatch.setenv("NEARFAR_GATE_REDIS", "redis://elsewhere")
    given = gate.environment("g" * 40, "redis://127.0.0.1/1")
    assert {
        "NEARFAR_GATE_MAX_RUNNING": "3",
        "NEARFAR_GATE_SECRET": "g" * 40,
        "NEARFAR_GATE_REDIS": "redis://127.0.0.1/1",
    } == given
