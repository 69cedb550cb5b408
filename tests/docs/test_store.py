"""docs/store.md says what is really written to the store, for how long and how large."""

from __future__ import annotations

import asyncio
import json
import re

import pytest

from docs import page
from edge_frontend import admin, cache, flight, revocations
from edge_frontend.limits import Limits
from edge_frontend.ports import Add, Claim, Operation, Put, Renew, Spend
from fakes import issuer
from fakes.edge import Edge, Scripted, Wait, chat, make_key, run, stream

MD = "store.md"
Written = Put | Claim | Renew | Add | Spend
ROWS = {row[0]: row[1:] for row in page.table(MD, "Keys")}
ADMIN = make_key(("admin",), key_id="root")
LIMITED = make_key(limits=Limits(rpm=10))
SHOWN = {
    "rate": ["<owner>"],
    "unreported": ["<caller>", "<what>"],
    "load": ["<upstream>"],
    "speed": ["<upstream>"],
    "jwks": ["<issuer>", "<reason>"],
}


def pattern(key: str) -> str:
    """A key as the page writes it."""
    parts = key.split(":")
    if parts[2] in SHOWN:
        return ":".join([*parts[:3], *SHOWN[parts[2]][: len(parts) - 3]])
    if parts[2] == "live":
        return ":".join([*parts[:3], "<token>", "<n>"])
    return ":".join([*parts[:3], *(["<hash>"] if len(parts) > 3 else [])])


def operations() -> list[Operation]:
    """Everything that an edge asks its store while it does all that it can."""
    edge = Edge.with_store(
        cache_ttl_s="3599",
        lease_ms="2999",
        gate_secret="g" * 32,
        issuers=issuer.settings(),
        tenants={"*": {"rpm": 1000}},
    )
    events = stream("x" * 50_000)
    load = ("x-nearfar-load", b"in_flight=1;capacity=24;seats=16;queued=0;drain=4.1;speed=14.2")
    edge.upstream.usual = Scripted(
        [*events[:1], Wait(400), events[1], Wait(400), *events[2:]],
        headers=(("content-type", b"text/event-stream"), load),
    )
    edge.upstream.at["login.test"] = Scripted([json.dumps({"keys": [issuer.jwk("k1")]}).encode()])

    async def scene() -> None:
        leading = asyncio.ensure_future(edge.ask(chat(stream=True)))
        await asyncio.sleep(0.1)
        await edge.beside().ask(chat(stream=True), key=LIMITED)
        await leading
        await edge.ask(chat(), key=LIMITED)
        for kid in ("k1", "k2"):
            await edge.ask(chat(), key=issuer.token(kid=kid))
        await edge.get("/readyz", key=None)
        described = {"tenant": "a", "expires_at": 2**40, "models": ["*"], "permissions": []}
        await edge.ask(described, method="PUT", path="/admin/keys/k9", key=ADMIN)
        await edge.ask(None, method="DELETE", path="/admin/keys/k9", key=ADMIN)

    run(scene())
    assert edge.store is not None
    return [operation for batch in edge.store.batches for operation in batch]


ASKED = operations()
WRITTEN = [op for op in ASKED if isinstance(op, Put | Claim | Renew | Add | Spend)]


def test_every_key_that_is_written_has_a_row_and_every_row_a_key() -> None:
    assert set(ROWS) == {pattern(operation.key) for operation in WRITTEN}


def test_the_only_other_key_that_is_read_is_named() -> None:
    read = {pattern(operation.key) for operation in ASKED}
    assert {"nf:1:ready"} == read - set(ROWS)
    assert "`nf:1:ready` is read" in page.text(MD)


@pytest.mark.parametrize("operation", WRITTEN, ids=lambda op: f"{type(op).__name__} {op.key[:14]}")
def test_a_value_lives_as_long_as_its_row_says(operation: Written) -> None:
    said = ROWS[pattern(operation.key)][1]
    if "<reason>" in pattern(operation.key):
        kinds = {"unknown": "an unknown key", "first": "the first", "refresh": "a refresh"}
        reason = kinds[operation.key.rpartition(":")[2]]
        (said,) = [part for part in said.split(", ") if part.endswith(reason)]
    known = {"NEARFAR_CACHE_TTL_S": 3_599_000, "NEARFAR_LEASE_MS": 2_999}
    number = re.match(r"(NEARFAR_\w+)|(\d+) (ms|s|days|years)", said)
    assert number, said
    units = {"ms": 1, "s": 1_000, "days": 86_400_000, "years": 365 * 86_400_000}
    ttl_ms = known[number[1]] if number[1] else int(number[2]) * units[number[3]]
    lives_ms = operation.window_ms if isinstance(operation, Spend) else operation.ttl_ms
    assert ttl_ms == lives_ms


@pytest.mark.parametrize("operation", WRITTEN, ids=lambda op: f"{type(op).__name__} {op.key[:14]}")
def test_a_value_is_no_larger_than_its_row_says(operation: Written) -> None:
    said = ROWS[pattern(operation.key)][2]
    if isinstance(operation, Add | Spend):
        assert said in ("20 bytes", "some 80 bytes a request")
        return
    number = re.match(r"(\d+) bytes?", said)
    if number:
        assert len(operation.value) <= int(number[1])
    else:
        assert said.startswith("some ") or said == "NEARFAR_CACHE_MAX_BYTES"


def test_the_pace_in_the_text_is_that_of_the_code() -> None:
    lease, waiting = ROWS["nf:1:lease:<hash>"][1], ROWS["nf:1:waiting:<hash>"][1]
    assert f"every {flight.TICK_MS} ms" in lease
    assert f"{flight.TICK_FOLLOWED_MS} ms with followers" in lease
    assert f"every {flight.POLL_MS} ms" in waiting
    assert f"{flight.SEGMENT_BYTES} bytes" == ROWS["nf:1:live:<token>:<n>"][2]


def test_what_must_not_be_evicted_is_what_an_operator_wrote() -> None:
    kept = page.section(MD, "What may be evicted").splitlines()
    assert f"All but `{revocations.KEY}` and `{admin.KEYS}`." in "\n".join(kept)


def test_the_form_of_an_entry_is_that_of_the_code() -> None:
    entry = cache.encode(cache.Entry(1, 2, 3, b"body", b"frames", b"usage"))
    facts = b"[1, 2, 3]"
    lengths = [len(part).to_bytes(4, "little") for part in (facts, b"body", b"frames", b"usage")]
    assert b"nf1" + b"".join(lengths) + facts + b"bodyframesusage" == entry
    assert "`nf1`, four lengths (32 bits, little-endian)" in page.text(MD)


def test_the_round_trips_of_a_hit_and_a_miss_are_those_of_the_text() -> None:
    edge = Edge.with_store()
    trips = []
    for _ in range(2):
        log = run(edge.ask(chat())).log
        assert log is not None
        trips.append(tuple(log["trips"][name] for name in ("near", "far", "upkeep")))
    assert [(1, 1, 1), (1, 0, 0)] == trips
