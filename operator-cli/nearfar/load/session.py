"""One run from its first request to its file's last line."""

from __future__ import annotations

import asyncio
import contextlib
import resource
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import uvloop

from nearfar import __version__
from nearfar.errors import Missing, NearfarError, Refused
from nearfar.exchange import Edge, refused
from nearfar.load.client import Client, Manner
from nearfar.load.plan import WARM_UP_STREAMS, Naming, Plan
from nearfar.load.runner import Sink, Stop, closed_loop, open_loop
from nearfar.runs import surroundings
from nearfar.runs.header import Header, Objectives, TargetOf, Workload
from nearfar.runs.run import Reason
from nearfar.runs.sample import Sample
from nearfar.runs.writer import RunWriter

LIBRARIES = ("httptools", "uvloop")
# What a probe may be answered without the load being pointless: the server is there, but busy.
_BUSY = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """What is measured, how, and where it is written. `began` hears of the header."""

    edge: Edge
    plan: Plan
    manner: Manner
    naming: Naming
    objectives: Objectives
    path: Path
    run: str
    began: Callable[[Header], None] = lambda _: None
    saw: Sink = lambda _: None


def new_name() -> str:
    """A name for a run, unlike any other."""
    return f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{secrets.token_hex(3)}"


def run(session: Session) -> Reason:
    """Measure, and write the run down as it goes. Returns how it ended.

    Ctrl-C ends it early: what is in flight is broken off, and all that was measured is kept.

    Raises:
        Missing: nothing answers at the endpoint, at the beginning or any more.
        Refused: the edge does not take the key, or not the request.
    """
    return uvloop.run(_run(session))


async def _run(session: Session) -> Reason:
    zero = time.perf_counter()
    stop = Stop()
    # A user and password in the address would stand in the way of the key, and in the file.
    session = replace(session, edge=replace(session.edge, endpoint=bare(session.edge.endpoint)))
    plan = replace(session.plan, salt=session.plan.salt or secrets.randbits(31) * 1_000_000)
    with ending_on_signals(stop):
        probe, manner = await probed(session, plan, zero)
        header = header_of(session, plan, manner, probe)
        async with Client(session.edge, manner, zero) as client:
            with RunWriter(session.path, header) as writer:
                session.began(header)

                def sink(sample: Sample) -> None:
                    writer.add(sample)
                    session.saw(sample)

                sink(probe)
                await _load(client, plan, sink, stop)
                writer.end(reason_of(stop))
    if stop.reason == "dead":
        raise Missing(
            f"{session.edge.endpoint} does not answer any more; {session.path} has what it gave.",
            "./nearfar status, or look at the edge's log.",
        )
    return reason_of(stop)


async def _load(client: Client, plan: Plan, sink: Sink, stop: Stop) -> None:
    warming = plan.warming(1)
    counted = 1

    def warmed(sample: Sample) -> None:
        nonlocal counted
        counted += 1
        sink(sample)

    await closed_loop(client, warming, WARM_UP_STREAMS, warmed, stop)
    if stop.is_set:
        return
    shots = plan.measured(counted, client.now_s)
    if plan.concurrency is not None:
        await closed_loop(client, shots, plan.concurrency, sink, stop)
    else:
        await open_loop(client, shots, sink, stop)


async def probed(session: Session, plan: Plan, zero: float) -> tuple[Sample, Manner]:
    """Ask once: is anybody there, is the key right, does it allow the account of time?"""
    _allow_many_connections()
    manner = replace(session.manner, headers={**plan.headers, **session.manner.headers})
    shot = replace(next(replace(plan, warm_up=1).warming(0)))
    async with Client(session.edge, manner, zero) as client:
        sample = await client.ask(shot)
    if sample.status == 403 and manner.trace:
        manner = replace(manner, trace=False)
        async with Client(session.edge, manner, zero) as client:
            sample = await client.ask(shot)
    _check(session.edge, sample)
    return sample, manner


def _check(edge: Edge, sample: Sample) -> None:
    if sample.outcome == "failed" and sample.status is None:
        why = sample.error.code if sample.error else "unknown"
        if why.startswith("SSL"):
            raise Missing(f"TLS with {edge.endpoint} failed ({why}).", "check the URL's name.")
        raise Missing(
            f"Nothing answers at {edge.endpoint} ({why}).", "./nearfar status, or check the URL."
        )
    if sample.outcome == "failed" and sample.error and sample.error.code == "not_a_chat_stream":
        raise NearfarError(
            f"{edge.endpoint} sent something that is not a chat stream.", "check the URL."
        )
    if sample.outcome == "refused" and sample.status not in _BUSY:
        raise _refusal(sample)


def _refusal(sample: Sample) -> Refused:
    code = sample.error.code if sample.error else "unknown"
    message = f"status {sample.status}, {code}"
    return refused(sample.status or 0, {"message": message, "code": code})


def header_of(session: Session, plan: Plan, manner: Manner, probe: Sample) -> Header:
    requests, sampling = plan.requests, plan.sampling
    return Header(
        run=session.run,
        label=session.naming.label,
        started_at=datetime.now(UTC).isoformat(timespec="milliseconds"),
        nearfar=__version__,
        command=session.naming.command,
        target=TargetOf(session.edge.endpoint, sampling.model),
        placement=session.naming.placement,
        load=plan.load,
        workload=Workload(
            source=requests.source,
            name=requests.name,
            requests=len(requests.prompts),
            seed=plan.seed,
            max_tokens=sampling.max_tokens,
            temperature=sampling.temperature,
            sha256=requests.sha256,
        ),
        objectives=session.objectives,
        cache=plan.cache,
        machine=surroundings.machine(LIBRARIES),
        clock=surroundings.clock(),
        settings=_settings(plan, manner),
        edge=_edge(probe),
    )


def _settings(plan: Plan, manner: Manner) -> dict[str, Any]:
    arrivals = plan.arrivals
    return {
        "client": "httptools on uvloop, HTTP/1.1, kept connections",
        "timeout_s": manner.timeout_s,
        "record_asked": manner.trace,
        "usage_asked": plan.sampling.include_usage,
        "warm_up": plan.warm_up,
        "blocks": plan.blocks,
        "cache_salt": plan.salt if plan.cache == "cold" else None,
        "burst_size": arrivals.burst_size if arrivals and arrivals.process == "burst" else None,
        "ramp_to_per_s": arrivals.ramp_to_per_s if arrivals else None,
        "text_kept": manner.keep_text,
    }


def _edge(probe: Sample) -> dict[str, Any] | None:
    """What the edge's first record says of itself."""
    if probe.record is None:
        return None
    names = ("settings_hash", "environment", "region", "route_table", "model_revision")
    found = {name: probe.record.get(name) for name in (*names, "template_version")}
    return {"version": probe.record.get("service_version"), **found}


def _allow_many_connections() -> None:
    """An open loop has as many connections as the server leaves requests unanswered."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def bare(url: str) -> str:
    """The address without user, password, query and fragment: those may be secrets."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.split('?')[0].split('#')[0].rpartition('@')[2]}".rstrip("/")


def reason_of(stop: Stop) -> Reason:
    return {"": "done", "interrupted": "interrupted"}.get(stop.reason, "failed")  # type: ignore[return-value]


@contextlib.contextmanager
def ending_on_signals(stop: Stop) -> Iterator[None]:
    """The first ctrl-C ends the load in order, the second one at once."""
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def end() -> None:
        stop.set("interrupted")
        restore()

    def restore() -> None:
        for number in numbers:
            loop.remove_signal_handler(number)

    try:
        for number in numbers:
            loop.add_signal_handler(number, end)
    except (RuntimeError, ValueError):  # not in the main thread, which gets no signals
        pass
    try:
        yield
    finally:
        restore()
