"""The contracts of store, upstream and clock, by the real adapters inside each host found here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from contract import clock, store, upstream
from fakes.script import Script
from fakes.upstream import UpstreamThread
from nearfar.checkout import here
from nearfar.guard import Guard
from stack import contracts
from stack.caller import Caller
from stack.stores import RedisServer


@pytest.fixture(scope="session", params=contracts.hosts())
def host(request: pytest.FixtureRequest) -> str:
    """Each host of this machine."""
    found: str = request.param
    return found


@pytest.fixture(scope="session")
def url(host: Any, run: Path, guard: Guard) -> Iterator[str]:
    """Where the contract component is served."""
    built = contracts.component(here(), host)
    with contracts.serving(built, host, run, guard) as found:
        yield found


@pytest.fixture(scope="session")
def scenes(closed_port: int) -> Iterator[dict[str, dict[str, str]]]:
    """A server that behaves as each scene says."""
    whole = Script(body=upstream.BODY, headers=(("X-Seen", "yes"),))
    scripts = {
        "whole": whole,
        "refused": Script(status=429, body=b"full", headers=(("Retry-After", "7"),)),
        "no head": Script(end="hang", end_before_head=True),
        "breaks": Script(end="fin", end_after=1, role_chunk=False),
        "stalls": Script(end="hang", end_after=1, role_chunk=False),
    }
    markers = {scene: f"scene-{scene.replace(' ', '-')}-end" for scene in upstream.SCENES}
    with UpstreamThread() as server:
        for scene, script in scripts.items():
            server.mark(markers[scene], script)
        authority = f"127.0.0.1:{server.fake.port}"
        yield {
            scene: {
                "authority": f"127.0.0.1:{closed_port}" if scene == "closed" else authority,
                "body": json.dumps(Caller(marker=markers[scene]).body(stream=True)),
            }
            for scene in upstream.SCENES
        }


@pytest.fixture(scope="session")
def near_store(request: pytest.FixtureRequest) -> RedisServer:
    """The session's Redis; the module `store` has its usual name here."""
    found: RedisServer = request.getfixturevalue("store")
    return found


def ask(url: str, suite: str, **given: str) -> Any:
    """What a suite found wrong, by the name of each check."""
    answer = httpx.get(f"{url}/{suite}", params=given, trust_env=False, timeout=60)
    assert 200 == answer.status_code
    return answer.json()


def told(results: dict[str, str | None]) -> str:
    """Everything that was wrong, as text."""
    return "\n".join(f"{name}:\n{wrong}" for name, wrong in results.items() if wrong)


def test_the_clock_keeps_its_contract(url: str) -> None:
    results = ask(url, "clock")
    assert {check.__name__ for check in clock.CHECKS} == set(results)
    assert "" == told(results)


def addresses(host: str, redis_url: str) -> dict[str, tuple[str, tuple[Any, ...]]]:
    """The stores of a host, and what each must do: only Spin has one of its own."""
    found: dict[str, tuple[str, tuple[Any, ...]]] = {
        "redis": (redis_url, store.CHECKS + store.ATOMIC)
    }
    return found | ({"kv": ("kv:default", store.CHECKS)} if host == "spin" else {})


def test_the_store_keeps_its_contract(url: str, host: str, near_store: RedisServer) -> None:
    for address, checks in addresses(host, near_store.url).values():
        results = ask(url, "store", address=address, prefix=f"contract-{host}")
        assert {check.__name__ for check in checks} == set(results)
        assert "" == told(results)


def test_the_upstream_keeps_its_contract(url: str, scenes: dict[str, dict[str, str]]) -> None:
    results = ask(url, "upstream", scenes=json.dumps(scenes))
    assert {check.__name__ for check in (*upstream.CHECKS, *upstream.POURING)} == set(results)
    assert "" == told(results)


def test_a_broken_store_does_not_keep_it(url: str, closed_port: int) -> None:
    """The suite can fail: nothing of it holds where nobody listens."""
    results = ask(url, "store", address=f"redis://127.0.0.1:{closed_port}", prefix="x")
    assert all(results.values())
