"""Key sets: one fetch when a key is new, few for made-up ones, none lost to an outage."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import Any

import pytest

from edge_frontend import jwks, jwt
from edge_frontend.caller import Caller
from edge_frontend.errors import KeysUnavailable, StoreDown, UpstreamError
from edge_frontend.issuers import Issuers
from edge_frontend.jwks import KeySet, KeySets
from edge_frontend.ports import Result
from fakes.edge import MemoryStore, Scripted, ScriptedUpstream, VirtualClock, Wait, run
from fakes.issuer import NOW_S, URL, KeyServer, claims, jwk, settings, token

pytestmark = pytest.mark.fault(12)

SECRET = "a secret of the operator, long enough"
LONG = 1_000_000


@dataclass
class Instance:
    """One edge instance: its hints, and the world that it shares with others."""

    clock: VirtualClock
    store: MemoryStore | None
    server: KeyServer
    secrets: tuple[str, ...] = (SECRET,)
    algorithms: tuple[str, ...] = ("ES256",)
    slow_ms: float = 0.0
    known: dict[str, KeySet] = field(default_factory=dict)
    remembered: jwt.Remembered = field(default_factory=jwt.Remembered)
    beside: list[asyncio.Future[None]] = field(default_factory=list)

    async def near(self, *operations: Any) -> list[Result]:
        if self.store is None:
            raise StoreDown("There is no store to ask.")
        results, _ = await self.store.batch(operations)
        return results

    async def fetch(self, url: str) -> bytes:
        await self.clock.sleep_ms(self.slow_ms)
        return await self.server(url)

    def spawn(self, work: Awaitable[None]) -> None:
        self.beside.append(asyncio.ensure_future(work))

    async def settle(self) -> None:
        """Let what goes on beside the requests end."""
        while self.beside:
            await self.beside.pop()

    def fresh(self) -> Instance:
        """A new instance in the same world."""
        return Instance(
            self.clock, self.store, self.server, self.secrets, self.algorithms, self.slow_ms
        )

    async def ask(self, kid: str = "k1", given_token: str = "") -> Caller:
        sets = KeySets(
            self.known, self.near, self.fetch, self.clock, self.spawn, self.secrets
        )  # fmt: skip
        known = Issuers.from_json(settings(algorithms=list(self.algorithms)))
        given_token = given_token or token(claims(exp=NOW_S + LONG), kid, "ES256")
        return await jwt.verify(given_token, known, sets, self.clock.wall_s(), self.remembered)

    async def is_let_in(self, kid: str = "k1") -> bool:
        try:
            await self.ask(kid)
        except jwt.InvalidToken:
            return False
        return True


def instance(*, store: bool = True, **fields: Any) -> Instance:
    clock = VirtualClock()
    return Instance(clock, MemoryStore(clock) if store else None, KeyServer(), **fields)


@pytest.mark.parametrize("store", [True, False])
def test_the_first_token_fetches_the_keys_and_the_next_ones_do_not(store: bool) -> None:
    edge = instance(store=store)

    async def check() -> None:
        for _ in range(3):
            assert await edge.is_let_in()

    run(check())
    assert [URL] == edge.server.fetched


def test_every_instance_of_a_store_goes_on_from_what_one_has_fetched() -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in()
        for _ in range(5):
            assert await edge.fresh().is_let_in()

    run(check())
    assert [URL] == edge.server.fetched


@pytest.mark.parametrize("store", [True, False])
def test_a_new_key_causes_one_refetch_and_passes(store: bool) -> None:
    edge = instance(store=store)

    async def check() -> None:
        assert await edge.is_let_in()
        edge.server.kids = ("k1", "k2")
        assert await edge.is_let_in("k2")
        assert await edge.is_let_in("k2")
        assert await edge.is_let_in("k1")

    run(check())
    assert 2 == len(edge.server.fetched)


def test_a_new_key_seen_by_many_at_once_causes_one_refetch_and_all_pass() -> None:
    edge = instance(slow_ms=300)

    async def check() -> None:
        other = edge.fresh()
        assert await edge.is_let_in()
        assert await other.is_let_in()
        edge.server.kids = ("k2",)
        asked = [one.is_let_in("k2") for one in (edge, other, edge, other, edge.fresh())]
        assert [True] * 5 == await asyncio.gather(*asked)

    run(check())
    assert 2 == len(edge.server.fetched)


def test_many_that_know_nothing_cause_one_fetch_and_all_pass() -> None:
    edge = instance(slow_ms=300)

    async def check() -> None:
        asked = [one.is_let_in() for one in (edge, edge, edge.fresh(), edge.fresh())]
        assert [True] * 4 == await asyncio.gather(*asked)

    run(check())
    assert [URL] == edge.server.fetched


@pytest.mark.parametrize("store", [True, False])
def test_two_hundred_made_up_keys_cause_few_fetches(store: bool) -> None:
    edge = instance(store=store)

    async def check() -> None:
        assert await edge.is_let_in()
        for number in range(200):
            made_up = token(claims(exp=NOW_S + LONG), f"made-up-{number}", "none", alg="ES256")
            with pytest.raises(jwt.InvalidToken):
                await edge.ask(given_token=made_up)
            edge.clock.advance(100)

    run(check())
    assert 1 + 200 * 100 / jwks.UNKNOWN_MS >= len(edge.server.fetched)
    assert 2 <= len(edge.server.fetched)


def test_two_hundred_made_up_keys_on_new_instances_cause_few_fetches() -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in()
        for number in range(200):
            made_up = token(claims(exp=NOW_S + LONG), f"made-up-{number}", "none", alg="ES256")
            with pytest.raises(jwt.InvalidToken):
                await edge.fresh().ask(given_token=made_up)
            edge.clock.advance(100)

    run(check())
    assert 1 + 200 * 100 / jwks.UNKNOWN_MS >= len(edge.server.fetched)


def test_a_token_without_a_key_id_causes_no_refetch() -> None:
    edge = instance()
    edge.server.kids = ("k1", "k2")

    async def check() -> None:
        assert await edge.is_let_in()
        nameless = token(claims(exp=NOW_S + LONG), None, "ES256")
        with pytest.raises(jwt.InvalidToken):
            await edge.ask(given_token=nameless)

    run(check())
    assert [URL] == edge.server.fetched


def test_a_token_of_another_algorithm_causes_no_refetch() -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in()
        for algorithm in ("HS256", "none", "RS256"):
            other = token(claims(exp=NOW_S + LONG), "k2", "none", alg=algorithm)
            with pytest.raises(jwt.InvalidToken):
                await edge.ask(given_token=other)

    run(check())
    assert [URL] == edge.server.fetched


def test_an_older_set_in_the_store_takes_nothing_back() -> None:
    edge = instance()
    store = edge.store
    assert store is not None

    async def check() -> None:
        assert await edge.is_let_in()
        older = store.peek("nf:1:jwks:login")
        assert older is not None
        edge.clock.advance(1_000)
        edge.server.kids = ("k2",)
        assert await edge.is_let_in("k2")
        store.put("nf:1:jwks:login", older)
        edge.known["login"].not_before_ms.clear()
        assert not await edge.is_let_in("k3")
        assert await edge.is_let_in("k2")

    run(check())


@pytest.mark.parametrize("store", [True, False])
def test_the_last_good_keys_survive_an_outage_and_then_end(store: bool) -> None:
    edge = instance(store=store)

    async def check() -> None:
        assert await edge.is_let_in()
        edge.server.down = True
        for _ in range(20):
            edge.clock.advance(3_600_000)
            assert await edge.is_let_in()
            assert not await edge.is_let_in("k2")
            await edge.settle()
        edge.clock.advance(5 * 3_600_000)
        with pytest.raises(KeysUnavailable):
            await edge.ask()
        edge.server.down = False
        edge.clock.advance(jwks.FIRST_MS)
        assert await edge.is_let_in()

    run(check())


def test_an_outage_before_anything_is_known_is_no_fault_of_the_token() -> None:
    edge = instance()
    edge.server.down = True

    async def check() -> None:
        for _ in range(50):
            with pytest.raises(KeysUnavailable) as raised:
                await edge.fresh().ask()
            edge.clock.advance(20)
        assert 503 == raised.value.status
        assert ("retry-after", "3") in raised.value.headers

    run(check())
    assert 1 <= len(edge.server.fetched) <= 2


def test_old_keys_serve_while_new_ones_are_fetched_beside() -> None:
    edge = instance(slow_ms=500)

    async def check() -> None:
        assert await edge.is_let_in()
        edge.server.kids = ("k2",)
        edge.clock.advance(jwks.FRESH_S * 1000)
        begun_ms = edge.clock.now_ms()
        assert await edge.is_let_in("k1")
        assert begun_ms == edge.clock.now_ms()
        await edge.settle()
        assert await edge.is_let_in("k2")
        assert 2 == len(edge.server.fetched)
        assert not await edge.is_let_in("k1")

    run(check())


def test_a_key_that_was_taken_back_opens_no_door_for_a_token_seen_before() -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in("k1")
        edge.server.kids = ("k2",)
        assert await edge.is_let_in("k2")
        assert not await edge.is_let_in("k1")

    run(check())


@pytest.mark.parametrize(
    "answer",
    [b"", b"[]", b"{}", b'{"keys": []}', b'{"keys": [{"kty": "oct"}]}', b"[" * 9_000, b"\xff"],
)
def test_what_is_no_key_set_takes_nothing_away(answer: bytes) -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in()
        edge.server.answer = answer
        assert not await edge.is_let_in("k2")
        assert await edge.is_let_in()
        assert await edge.fresh().is_let_in()

    run(check())


def test_who_writes_the_store_makes_no_keys() -> None:
    edge = instance()
    assert edge.store is not None
    evil = json.dumps([NOW_S + LONG, {"keys": [jwk("evil", "ES256")]}]).encode()
    edge.store.put("nf:1:jwks:login", b"\0" * 32 + evil)

    async def check() -> None:
        assert not await edge.is_let_in("evil")
        assert await edge.is_let_in("k1")

    run(check())


def test_a_set_under_the_previous_secret_serves_on() -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in()
        rotated = edge.fresh()
        rotated.secrets = ("another secret, just as long as the first", SECRET)
        assert await rotated.is_let_in()

    run(check())
    assert [URL] == edge.server.fetched


def test_a_store_that_is_down_costs_no_request() -> None:
    edge = instance()
    assert edge.store is not None
    edge.store.down = True

    async def check() -> None:
        assert await edge.is_let_in()
        edge.server.kids = ("k2",)
        assert await edge.is_let_in("k2")

    run(check())
    assert 2 == len(edge.server.fetched)


def test_a_fetch_that_was_dropped_in_the_middle_is_done_again() -> None:
    edge = instance(slow_ms=1_000)

    async def check() -> None:
        first = asyncio.ensure_future(edge.ask())
        await edge.clock.sleep_ms(100)
        first.cancel()
        edge.clock.advance(jwks.FIRST_MS)
        assert await edge.is_let_in()

    run(check())


def test_keys_of_algorithms_that_are_no_longer_the_issuers_are_not_taken_over() -> None:
    edge = instance()

    async def check() -> None:
        assert await edge.is_let_in()
        other = edge.fresh()
        other.algorithms = ("EdDSA",)
        good = token(claims(exp=NOW_S + LONG), "e1", "EdDSA")
        with pytest.raises(KeysUnavailable):
            await other.ask(given_token=good)

    run(check())


@pytest.mark.parametrize(
    "scripted",
    [
        Scripted([b"no"], status=404),
        Scripted([b"x" * (jwks.MAX_BYTES + 1)]),
        Scripted([b"{", UpstreamError("broke")]),
        UpstreamError("nobody"),
    ],
)
def test_a_fetch_takes_only_a_whole_answer_of_a_sane_size(
    scripted: Scripted | UpstreamError,
) -> None:
    clock = VirtualClock()
    upstream = ScriptedUpstream(clock)
    upstream.enqueue(scripted)
    with pytest.raises(UpstreamError):
        run(jwks.fetch(upstream, URL))
    assert all(source.closed for source in upstream.sources)


def test_a_fetch_asks_for_the_address_it_was_given_without_any_credential() -> None:
    clock = VirtualClock()
    upstream = ScriptedUpstream(clock)
    upstream.enqueue(Scripted([b'{"ke', Wait(5.0), b'ys": []}']))
    assert b'{"keys": []}' == run(jwks.fetch(upstream, URL))
    (call,) = upstream.calls
    assert ("https", "login.test", "/keys?v=1", b"") == (
        call.scheme, call.authority, call.path, call.body,
    )  # fmt: skip
    assert (("accept", b"application/json"),) == call.headers
