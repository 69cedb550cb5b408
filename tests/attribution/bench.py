"""The stack with two edges side by side, and one measured comparison after the other in it."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from attribution import build
from attribution.places import NOTHING, PLACES, Injection
from nearfar import runs
from nearfar.checkout import here, python_path
from nearfar.exchange import Edge as Endpoint
from nearfar.guard import Guard
from nearfar.load import turns
from nearfar.load.client import Manner
from nearfar.load.plan import Naming, Plan
from nearfar.load.prompt import Prompt, Sampling
from nearfar.load.session import Session
from nearfar.load.workload import Requests
from nearfar.runs import Objectives
from nearfar.stats.comparison import Comparison, Options, compared
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, Edges, settings
from stack.stores import RedisServer

TESTS = Path(__file__).parents[1]
ROUNDS = 20
EACH = 2  # requests of a round on a side
LEAST_MS, MOST_MS = 12.0, 60.0


@dataclass(frozen=True, slots=True)
class Attribution:
    """What was put, and what the comparison said."""

    injection: Injection
    said: str
    also: str | None
    share: float | None

    @property
    def right(self) -> bool:
        """Whether it said the best that can be proved, and nothing that was not delayed."""
        place = self.injection.place
        return self.said == place.best or (self.said in place.also and self.also == place.best)


def drawn(count: int, seed: int) -> list[Injection]:
    """So many injections, all places and none in turn, of random size, side and order."""
    rng = random.Random(seed)  # noqa: S311 - a benchmark's, no secret
    built = [place for place in PLACES if place.built]
    found = [
        Injection(
            built[number % len(built)],
            rng.uniform(LEAST_MS, MOST_MS),
            rng.choice(("before", "after")),
            number,
        )
        for number in range(count)
    ]
    rng.shuffle(found)
    return found


def said(found: Comparison) -> str:
    """The one part that the comparison names, or that it names none."""
    return found.explanation.most.name if found.explanation.most else NOTHING


@dataclass(slots=True)
class Bench:
    """A context manager: Redis, two edges with waits in them, and the world around them."""

    run: Path
    _exits: ExitStack = field(default_factory=ExitStack)
    _world: Any = None
    _ports: Any = None
    _count: int = 0

    def __enter__(self) -> Self:
        with ExitStack() as exits:
            guard = Guard()
            exits.callback(guard.close)
            store = RedisServer(self.run, guard)
            store.start()
            exits.callback(store.kill)
            edges = Edges(build.component(), self.run, guard)
            exits.callback(edges.stop)
            self._world = _started(exits, store.port)
            self._ports = json.loads(self._world.stdout.readline())
            for name in turns.ARMS:
                around = self._ports[name]
                wanted = settings(
                    {"mock": f"http://127.0.0.1:{around['far']}"},
                    store.url_at(around["near"]),
                    store_timeout_ms=3000,
                )
                started = edges.start(wanted)
                self._tell(name, {"edge": int(started.url.rpartition(":")[2])})
            self._exits = exits.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._exits.close()

    def attribute(self, injection: Injection, rounds: int = ROUNDS) -> Attribution:
        """Put the delay, measure both sides in turns, and compare what was written down."""
        for side in turns.ARMS:
            self._tell(side, injection.settings if side == injection.side else {})
        self._count += 1
        paths = [self.run / f"{self._count}-{arm}.jsonl" for arm in turns.ARMS]
        one, two = (
            self._session(arm, path, injection, rounds)
            for arm, path in zip(turns.ARMS, paths, strict=True)
        )
        if turns.run(one, two) == "interrupted":
            raise KeyboardInterrupt
        # From here on nothing knows of the injection but the two files of what was measured.
        found = compared(runs.read(paths[0]), runs.read(paths[1]), Options())
        told = found.explanation
        also = told.also.name if told.also else None
        return Attribution(injection, said(found), also, told.share)

    def _tell(self, side: str, delays: Any) -> None:
        self._world.stdin.write(json.dumps({"side": side, **delays}) + "\n")
        self._world.stdin.flush()
        assert self._world.stdout.readline()

    def _session(self, arm: str, path: Path, injection: Injection, rounds: int) -> Session:
        # Each side and each comparison has a tenant of its own: no answer is another's.
        endpoint = f"http://127.0.0.1:{self._ports[arm]['client']}"
        headers = injection.headers if arm == injection.side else {}
        prompts = tuple(
            Prompt(id=f"p{n}", messages=[{"role": "user", "content": f"question {n}"}])
            for n in range(rounds * EACH)
        )
        plan = Plan(
            requests=Requests("prompts", "attribution", prompts),
            sampling=Sampling(model="mock"),
            concurrency=1,
            count=rounds * EACH,
            warm_up=2,
            blocks=rounds,
        )
        return Session(
            edge=Endpoint(endpoint, Caller().key),
            plan=plan,
            manner=replace(Manner(), headers=headers),
            naming=Naming(),
            objectives=Objectives(),
            path=path,
            run=path.stem,
        )


def _started(exits: ExitStack, redis: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-m", "attribution.world", "--api-key", UPSTREAM_KEY]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), python_path(here())])}
    world = subprocess.Popen(
        [*argv, "--redis", str(redis)],
        cwd=TESTS,
        env=env,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    exits.callback(_end, world)
    return world


def _end(world: subprocess.Popen[str]) -> None:
    world.terminate()
    world.wait(10)
    for pipe in (world.stdin, world.stdout):
        if pipe is not None:
            pipe.close()
