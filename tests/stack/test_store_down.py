"""The near store fails in every way: a bounded delay, then a miss; never a failed request."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from fakes.link import LinkThread
from fakes.script import Script
from fakes.upstream import UpstreamThread
from stack.answers import facts_of_stream
from stack.caller import Caller
from stack.calls import Calls
from stack.edges import Edge, Edges, settings
from stack.stores import RedisServer

TIMEOUT_MS = 200
# Connecting and asking have a time-out each, on the way in and when the answer is kept.
BOUND_S = 4 * TIMEOUT_MS / 1000 + 0.5

pytestmark = pytest.mark.fault(10)


@dataclass(frozen=True, slots=True)
class Near:
    """An edge with a store of its own, whose path can be cut."""

    edge: Edge
    server: RedisServer
    link: LinkThread


@pytest.fixture(params=[None, 1], ids=["warm", "fresh"])
def near(
    request: pytest.FixtureRequest,
    own_edges: Edges,
    own_store: RedisServer,
    upstream: UpstreamThread,
) -> Iterator[Near]:
    """Both kinds of edge, each with a store that may be broken."""
    with LinkThread("127.0.0.1", own_store.port) as link:
        wanted = settings(
            {"mock": upstream.url}, own_store.url_at(link.port), store_timeout_ms=TIMEOUT_MS
        )
        yield Near(own_edges.start(wanted, reuse_count=request.param), own_store, link)


def ask(near: Near, caller: Caller, text: str = "x") -> tuple[str, float]:
    """One answer as a stream: its x-cache, and the seconds that it took."""
    began = time.monotonic()
    answer = caller.post(near.edge, caller.body(text, stream=True))
    took = time.monotonic() - began
    assert 200 == answer.status_code
    facts = facts_of_stream(answer.content)
    assert f"{caller.marker} {text}" == facts["choices"][0]["message"]["content"]
    return answer.headers["x-cache"], took


def works_again(near: Near, caller: Caller, text: str = "again") -> None:
    """Within a few seconds a repeated question is a hit."""
    deadline = time.monotonic() + 5
    while ask(near, caller, text)[0] != "hit":
        assert time.monotonic() < deadline, "the store is not used again"
        time.sleep(0.1)


def test_it_is_killed_and_started_between_requests(
    near: Near, caller: Caller, calls: Calls
) -> None:
    assert ["miss", "hit"] == [ask(near, caller)[0] for _ in "ab"]
    near.server.kill()
    for _ in range(3):
        cache, took = ask(near, caller)
        assert ("miss", True) == (cache, took < BOUND_S)
    assert 4 == len(calls.seen)
    near.server.start()
    works_again(near, caller)


def test_it_is_restarted_without_a_request_in_between(near: Near, caller: Caller) -> None:
    """The connections that the instance remembers are dead; nobody notices."""
    assert ["miss", "hit"] == [ask(near, caller)[0] for _ in "ab"]
    near.server.kill()
    near.server.start()
    assert ["miss", "hit"] == [ask(near, caller)[0] for _ in "ab"]


def test_it_is_killed_in_the_middle_of_a_stream(near: Near, caller: Caller, calls: Calls) -> None:
    calls.answer(Script(content="word", chunks=20, gap_ms=50))
    with caller.openai(near.edge) as client:
        stream = client.chat.completions.create(**caller.body("s"), stream=True)
        texts = []
        for chunk in stream:
            texts.append(chunk.choices[0].delta.content or "")
            if len(texts) == 5:
                near.server.kill()
    assert " ".join(["word"] * 20) == "".join(texts)
    assert "stop" == chunk.choices[0].finish_reason


def read_only(client: redis.Redis) -> None:
    client.replicaof("127.0.0.1", "1")


def out_of_memory(client: redis.Redis) -> None:
    client.config_set("maxmemory-policy", "noeviction")
    client.config_set("maxmemory", "1")


def no_scripts(client: redis.Redis) -> None:
    client.acl_setuser("default", enabled=True, commands=["-eval", "-set"])


def another_password(client: redis.Redis) -> None:
    client.config_set("requirepass", "another-password")
    client.client_kill_filter(_type="normal", skipme=True)


@pytest.mark.parametrize("break_it", [read_only, out_of_memory, no_scripts, another_password])
def test_it_refuses_to_write_or_to_talk(
    near: Near, caller: Caller, calls: Calls, break_it: Callable[[redis.Redis], None]
) -> None:
    assert ["miss", "hit"] == [ask(near, caller)[0] for _ in "ab"]
    with near.server.client() as client:
        break_it(client)
    for count in (2, 3):
        cache, took = ask(near, caller, "new")
        assert ("miss", True) == (cache, took < BOUND_S)
        assert count == len(calls.seen)
    answer = caller.post(near.edge, caller.body("new"))
    assert (200, f"{caller.marker} new") == (
        answer.status_code,
        answer.json()["choices"][0]["message"]["content"],
    )


@pytest.mark.parametrize("value", [b"", b"nonsense", b"nf1" + b"\xff" * 40, b"\x00" * 3000])
def test_a_malformed_value_is_a_miss(
    near: Near, caller: Caller, calls: Calls, value: bytes
) -> None:
    assert "miss" == ask(near, caller)[0]
    (name,) = near.server.keys("nf:1:answer:*")
    with near.server.client() as client:
        client.set(name, value)
    assert "miss" == ask(near, caller)[0]
    assert 2 == len(calls.seen)
    works_again(near, caller, "x")


def test_a_value_of_another_type_is_a_miss(near: Near, caller: Caller, calls: Calls) -> None:
    assert "miss" == ask(near, caller)[0]
    (name,) = near.server.keys("nf:1:answer:*")
    with near.server.client() as client:
        client.delete(name)
        client.lpush(name, b"x")
    cache, took = ask(near, caller)
    assert ("miss", True) == (cache, took < BOUND_S)
    assert 2 == len(calls.seen)


def test_it_swallows_every_packet(near: Near, caller: Caller, calls: Calls) -> None:
    assert ["miss", "hit"] == [ask(near, caller)[0] for _ in "ab"]
    near.link.swallow()
    for count in (2, 3):
        cache, took = ask(near, caller)
        assert ("miss", True) == (cache, took < BOUND_S)
        assert count == len(calls.seen)
    near.link.cut()
    near.link.resume()
    works_again(near, caller)


def test_its_port_is_closed(near: Near, caller: Caller) -> None:
    near.link.refuse()
    for _ in range(2):
        cache, took = ask(near, caller)
        assert ("miss", True) == (cache, took < BOUND_S)
    near.link.resume()
    works_again(near, caller)


@pytest.mark.parametrize("reuse_count", [None, 1], ids=["warm", "fresh"])
@pytest.mark.parametrize("what", ["wrong password", "no such host", "closed port"])
def test_it_was_never_reachable(
    own_edges: Edges,
    own_store: RedisServer,
    upstream: UpstreamThread,
    caller: Caller,
    closed_port: int,
    what: str,
    reuse_count: int | None,
) -> None:
    url = {
        "wrong password": own_store.url_at(own_store.port, "wrong-password"),
        "no such host": "redis://no-such-host.invalid:6379",
        "closed port": f"redis://127.0.0.1:{closed_port}",
    }[what]
    edge = own_edges.start(settings({"mock": upstream.url}, url), reuse_count=reuse_count)
    for streamed in (False, True):
        began = time.monotonic()
        answer = caller.post(edge, caller.body(stream=streamed))
        assert (200, "miss") == (answer.status_code, answer.headers["x-cache"])
        assert time.monotonic() - began < 2
    assert "wrong-password" not in edge.log_text()


def test_a_door_stays_shut_and_open_as_it_was(near: Near, caller: Caller) -> None:
    """Redis being away neither opens nor closes it: keys verify themselves."""
    near.server.kill()
    wrong = caller.other(secret="another-secret-of-forty-characters-000000")
    assert 401 == wrong.post(near.edge, caller.body()).status_code
    assert 200 == caller.post(near.edge, caller.body()).status_code


def test_the_log_says_nothing_of_the_store_password(near: Near, caller: Caller, run: Path) -> None:
    ask(near, caller)
    near.server.kill()
    ask(near, caller)
    assert near.server.password not in near.edge.log_text()
