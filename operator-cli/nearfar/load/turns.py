"""Measures two deployments in turns, A B B A A B B A …, so that what else happens happens to both.

A round is one block of both: the same requests, with the same seeds and at the same pace, first to
one side and then to the other. The first side changes with each round, so that neither is always
asked what the other has just been asked.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from itertools import groupby

import uvloop

from nearfar.errors import BadInput, Missing
from nearfar.load.client import Client, Manner, Shot
from nearfar.load.plan import WARM_UP_STREAMS, Plan
from nearfar.load.runner import Stop, closed_loop, open_loop
from nearfar.load.session import Session, bare, ending_on_signals, header_of, probed, reason_of
from nearfar.runs import Header, RunWriter, Sample
from nearfar.runs.run import Reason
from nearfar.stats.side import INTERLEAVED

ARMS = ("before", "after")


@dataclass(slots=True)
class _Side:
    """One deployment while it is measured."""

    session: Session
    client: Client
    writer: RunWriter
    rounds: list[list[Shot]]

    def sink(self, arm: str) -> Callable[[Sample], None]:
        """What takes each sample of this side."""

        def take(sample: Sample) -> None:
            told = replace(sample, arm=arm)
            self.writer.add(told)
            self.session.saw(told)

        return take


def run(before: Session, after: Session) -> Reason:
    """Measure both, and write a run of each down as it goes. Returns how it ended.

    Raises:
        BadInput: the load has no number of requests, or fewer than rounds.
        Missing: nothing answers at an endpoint, at the beginning or any more.
        Refused: an edge does not take the key, or not the request.
    """
    for session in (before, after):
        _check(session.plan)
    return uvloop.run(_run(before, after))


def _check(plan: Plan) -> None:
    if plan.total is None:
        raise BadInput("Turns need a number of requests.", "pass --requests, not --duration.")
    if plan.total < plan.blocks:
        raise BadInput(
            f"{plan.total} requests do not fill {plan.blocks} rounds.",
            "pass more --requests, or fewer --rounds.",
        )


async def _run(before: Session, after: Session) -> Reason:
    zero = time.perf_counter()
    stop = Stop()
    pair, salt = secrets.token_hex(8), secrets.randbits(30) * 1_000_000
    # The same seeds on both sides, unless one cache would answer the one with the other's answer.
    same = bare(before.edge.endpoint) == bare(after.edge.endpoint)
    salts = (salt, salt + (1 << 52) if same else salt)
    async with AsyncExitStack() as exits:
        exits.enter_context(ending_on_signals(stop))
        # Both are asked once before anything is written down: one of them may not be there.
        plans = [
            replace(session.plan, salt=own)
            for session, own in zip((before, after), salts, strict=True)
        ]
        sessions = [_bare(one) for one in (before, after)]
        asked = [await probed(one, plan, zero) for one, plan in zip(sessions, plans, strict=True)]
        sides = [
            await _begun(exits, replace(one, plan=plan), first, pair, zero)
            for one, plan, first in zip(sessions, plans, asked, strict=True)
        ]
        await _warmed(sides, stop)
        for number in range(before.plan.blocks):
            order = (0, 1) if number % 2 == 0 else (1, 0)
            for which in order:
                if not stop.is_set:
                    await _turn(sides[which], ARMS[which], number, stop)
        for side in sides:
            side.writer.end(reason_of(stop))
    if stop.reason == "dead":
        raise Missing(
            f"An endpoint does not answer any more; {before.path} and {after.path} have what came.",
            "./nearfar status, or look at the edges' logs.",
        )
    return reason_of(stop)


def _bare(session: Session) -> Session:
    return replace(session, edge=replace(session.edge, endpoint=bare(session.edge.endpoint)))


async def _begun(
    exits: AsyncExitStack,
    session: Session,
    asked: tuple[Sample, Manner],
    pair: str,
    zero: float,
) -> _Side:
    """Open one side's file and connections."""
    first, manner = asked
    header = _paired(header_of(session, session.plan, manner, first), pair)
    writer = exits.enter_context(RunWriter(session.path, header))
    client = await exits.enter_async_context(Client(session.edge, manner, zero))
    session.began(header)
    writer.add(first)
    warm_up = sum(1 for _ in session.plan.warming(1))
    return _Side(session, client, writer, list(_rounds(session.plan, 1 + warm_up)))


def _paired(header: Header, pair: str) -> Header:
    return replace(header, settings={**header.settings, INTERLEAVED: pair})


def _rounds(plan: Plan, first: int) -> Iterator[list[Shot]]:
    """The requests of each round; `due_s` counts from the round's own beginning."""
    shots = plan.measured(first, lambda: 0.0)
    for _, block in groupby(shots, key=lambda shot: shot.block):
        own = list(block)
        start_s = own[0].due_s
        yield [
            shot
            if shot.due_s is None or start_s is None
            else replace(shot, due_s=shot.due_s - start_s)
            for shot in own
        ]


async def _warmed(sides: list[_Side], stop: Stop) -> None:
    for side, arm in zip(sides, ARMS, strict=True):
        shots = side.session.plan.warming(1)
        await closed_loop(side.client, shots, WARM_UP_STREAMS, side.sink(arm), stop)


async def _turn(side: _Side, arm: str, number: int, stop: Stop) -> None:
    shots = [replace(shot, arm=arm) for shot in side.rounds[number]]
    concurrency = side.session.plan.concurrency
    if concurrency is not None:
        await closed_loop(side.client, shots, concurrency, side.sink(arm), stop)
        return
    now_s = side.client.now_s()
    due = [replace(shot, due_s=now_s + (shot.due_s or 0.0)) for shot in shots]
    await open_loop(side.client, due, side.sink(arm), stop)
    await asyncio.sleep(0)
