"""What a run sends: the requests of the warm-up and of the measurement, each with its instant."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from nearfar.errors import BadInput
from nearfar.load.arrivals import Arrivals
from nearfar.load.client import Shot
from nearfar.load.prompt import Prompt, Sampling
from nearfar.load.workload import Requests
from nearfar.runs.header import CacheState, Load, Process
from nearfar.runs.sample import Phase

# Neighbouring requests share a server's state; the bootstrap draws whole blocks of them.
BLOCKS = 20
# Requests of a warm-up that are in flight at once.
WARM_UP_STREAMS = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """An open loop has `arrivals` or `instants` (of a trace); a closed loop has `concurrency`.

    A closed loop ends after `requests`, `duration_s`, or the first of both. `salt` makes what is
    asked new to an answer cache (cache `cold`): it goes into `seed`, which is part of its key.
    """

    requests: Requests
    sampling: Sampling
    cache: CacheState = "cold"
    arrivals: Arrivals | None = None
    instants: Sequence[float] | None = None
    concurrency: int | None = None
    count: int | None = None
    duration_s: float | None = None
    warm_up: int = 0
    blocks: int = BLOCKS
    salt: int = 0
    seed: int = 0

    def __post_init__(self) -> None:
        ways = (self.arrivals, self.instants, self.concurrency)
        if sum(way is not None for way in ways) != 1:
            raise BadInput(
                "The load is not one of an open loop, a trace and a closed loop.",
                "pass one of --rate, --trace and --concurrency.",
            )
        if self.concurrency is not None and self.count is None and self.duration_s is None:
            raise BadInput("The load has no end.", "pass --requests or --duration.")

    @property
    def load(self) -> Load:
        """The load as the header of a run has it."""
        if self.arrivals is not None:
            process: Process = self.arrivals.process
            rate = self.arrivals.rate_per_s
            bounds = (self.arrivals.requests, self.arrivals.duration_s)
        else:
            process = "closed" if self.instants is None else "trace"
            rate, bounds = None, (self.count, self.duration_s)
        return Load(
            process=process,
            rate_per_s=rate,
            concurrency=self.concurrency,
            requests=bounds[0],
            duration_s=bounds[1],
            seed=self.seed,
        )

    @property
    def headers(self) -> Mapping[str, str]:
        """What every request says besides, for the cache's sake."""
        return {"cache-control": "no-store"} if self.cache == "bypass" else {}

    @property
    def total(self) -> int | None:
        """Requests to be measured; None where time alone bounds them."""
        return len(self.instants) if self.instants is not None else self.load.requests

    def warming(self, first: int) -> Iterator[Shot]:
        """The warm-up. A warm cache asks everything once, and so often only."""
        asked = len(self.requests.prompts) if self.cache == "warm" else self.warm_up
        for number in range(asked):
            yield self._shot(first + number, number, "warmup")

    def measured(self, first: int, now_s: Callable[[], float]) -> Iterator[Shot]:
        """The measurement, from now on; the first request has the number `first`."""
        start_s = now_s()
        if self.concurrency is not None:
            yield from self._closed(first, start_s, now_s)
            return
        due = self.instants if self.arrivals is None else self.arrivals.instants()
        for number, at_s in enumerate(due or ()):
            block = self._block(number, at_s)
            yield self._shot(first + number, number, "measured", start_s + at_s, block)

    def _closed(self, first: int, start_s: float, now_s: Callable[[], float]) -> Iterator[Shot]:
        number = 0
        while self.count is None or number < self.count:
            at_s = now_s() - start_s
            if self.duration_s is not None and at_s >= self.duration_s:
                return
            yield self._shot(first + number, number, "measured", None, self._block(number, at_s))
            number += 1

    def _block(self, number: int, at_s: float) -> int:
        total, length_s = self.total, self.load.duration_s
        if total is not None:
            return number * self.blocks // total
        return int(at_s / length_s * self.blocks) if length_s else 0

    def _shot(
        self, i: int, number: int, phase: Phase, due_s: float | None = None, block: int = 0
    ) -> Shot:
        prompt = self.requests[number]
        body = self.body(prompt, i)
        return Shot(i=i, prompt=prompt, body=body, due_s=due_s, phase=phase, block=block)

    def body(self, prompt: Prompt, i: int) -> bytes:
        """The body of request `i`."""
        seed = self.salt + i if self.cache == "cold" else None
        return json.dumps(self.sampling.body(prompt, seed), ensure_ascii=False).encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """What the operator calls a run and where the halves stood; for the header alone."""

    label: str | None = None
    placement: str | None = None
    command: tuple[str, ...] = field(default=())
