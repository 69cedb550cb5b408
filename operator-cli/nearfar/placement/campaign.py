"""Measures starts again and again: quick ones interleaved, slow ones after, each kept at once."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec

from gpu_backend.progress import ProgressCallback
from nearfar import build
from nearfar.checkout import Checkout
from nearfar.errors import Missing, NearfarError
from nearfar.exchange import Edge
from nearfar.guard import Guard
from nearfar.placement import edge_starts, engine_starts, plain_starts, pod_answers
from nearfar.placement.pod_story import NotStarted
from nearfar.placement.pods import Pods
from nearfar.placement.processes import Bench, ask_first, ended, marks_told
from nearfar.placement.recording import Recording
from nearfar.placement.steps import Start
from nearfar.placement.subjects import SUBJECTS

Say = Callable[[str], None]
Measure = Callable[[int], Start]
Prepare = Callable[[Bench, ExitStack, Say], Iterator[Measure]]
P = ParamSpec("P")
WARM_UP = 3


@dataclass(frozen=True, slots=True)
class Plan:
    """How often, and with which pause in between. `renew`: pods to let be made anew.

    With an edge, it is asked for an answer of its model after each of these.
    """

    subjects: tuple[str, ...]
    repeats: int
    slow_repeats: int
    interval_s: float
    profile: str
    renew: int = 0
    edge: Edge | None = None
    model: str = ""


@dataclass(slots=True)
class Campaign:
    """One run of measurements; what fails is left out with its reason, and the rest goes on."""

    here: Checkout
    plan: Plan
    recording: Recording
    say: Say
    progress: ProgressCallback

    def run(self, pods: Pods | None) -> None:
        """Measure all that was asked for.

        Raises:
            KeyboardInterrupt: it was interrupted; what was measured is in the recording.
            Missing: nothing at all could be measured.
        """
        with _bench(self.here) as bench:
            self._quick(bench)
            self._compile(bench)
            if "engine" in self.plan.subjects:
                self._attempt("engine", self._engine, bench)
        if pods is not None:
            self._attempt("pod", self._pods, pods)
        if not self.recording.starts:
            reasons = "; ".join(each.why for each in self.recording.absent) or "no repeats"
            raise Missing(f"Nothing could be measured: {reasons}", "nearfar coldstart --help")

    def _quick(self, bench: Bench) -> None:
        """Edge and container turn about, each round in the other order, cold beside warm."""
        if not self.plan.repeats:
            return
        with ExitStack() as exits:
            measures = list[tuple[str, Measure]]()
            for subject, prepare in (
                ("edge-instance", _instances),
                ("edge-host", _hosts),
                ("container", _containers),
            ):
                if subject in self.plan.subjects:
                    self._attempt(subject, self._prepare, subject, prepare, bench, exits, measures)
            self._rounds(measures)

    def _rounds(self, measures: list[tuple[str, Measure]]) -> None:
        failed, tenth = set[str](), max(1, self.plan.repeats // 10)
        for number in range(self.plan.repeats if measures else 0):
            if number % tenth == 0:
                self.say(f"quick starts: round {number + 1} of {self.plan.repeats}")
            for subject, measure in measures if number % 2 == 0 else reversed(measures):
                if subject in failed:
                    continue
                if not self._attempt(subject, self._keep, measure, number):
                    failed.add(subject)

    def _prepare(
        self,
        subject: str,
        prepare: Prepare,
        bench: Bench,
        exits: ExitStack,
        measures: list[tuple[str, Measure]],
    ) -> None:
        measures += [(subject, each) for each in prepare(bench, exits, self.say)]

    def _compile(self, bench: Bench) -> None:
        if "edge-compile" not in self.plan.subjects:
            return

        def compile_once(number: int) -> Start:
            wasm = _component(bench, self.say).with_suffix(".wasm")
            return edge_starts.compiling(bench, wasm, number)

        for number in range(self.plan.slow_repeats):
            self.say(f"edge that compiles: {number + 1} of {self.plan.slow_repeats}, about 20 s")
            if not self._attempt("edge-compile", self._keep, compile_once, number):
                return

    def _engine(self, bench: Bench) -> None:
        start = engine_starts.starter(self.here, self.plan.profile, self.progress)
        for number in range(self.plan.slow_repeats):
            self.say(f"vLLM: start {number + 1} of {self.plan.slow_repeats}, about 40 s")
            found, running = engine_starts.cold(start, bench.run / "engine.log", number)
            with running:
                self._add(found)
                if number == self.plan.slow_repeats - 1:
                    for each in range(self.plan.repeats):
                        self._add(engine_starts.warm(running, each))

    def _pods(self, pods: Pods) -> None:
        for number in range(self.plan.renew):
            self.say(f"pod: deleting and waiting, {number + 1} of {self.plan.renew}")
            if self.plan.edge is None:
                self._add(pods.renewed(number))
                continue
            found = pod_answers.renewed(pods, self.plan.edge, self.plan.model, number)
            for start in found:
                self._add(start)
        if self.plan.renew:
            return
        for number, pod in enumerate(pods.some()):
            try:
                self._add(pods.start(pod, number))
            except NotStarted as why:
                self.recording.leave_out("pod", str(why))

    def _attempt(
        self, subject: str, work: Callable[P, object], *given: P.args, **named: P.kwargs
    ) -> bool:
        """Whether it worked; a failure of one subject is told and is no failure of the others."""
        try:
            work(*given, **named)
        except NearfarError as problem:
            self.recording.leave_out(subject, problem.message)
            self.say(f"{SUBJECTS[subject].title}: {problem.message}")
            return False
        return True

    def _keep(self, measure: Measure, number: int) -> None:
        self._add(measure(number))

    def _add(self, start: Start) -> None:
        self.recording.add(start)
        time.sleep(self.plan.interval_s)


@contextmanager
def _bench(here: Checkout) -> Iterator[Bench]:
    """A folder of the run's own for logs, and a guard that ends what was started."""
    folder = here.make_run() / "coldstart"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(mode=0o700)
    guard = Guard()
    try:
        yield Bench(here, folder, guard)
    finally:
        guard.close()


def _instances(bench: Bench, exits: ExitStack, say: Say) -> Iterator[Measure]:
    component = _component(bench, say)
    pair = exits.enter_context(edge_starts.pair(bench, component))
    yield lambda n: edge_starts.instance(bench, pair.cold, "cold", n)
    yield lambda n: edge_starts.instance(bench, pair.warm, "warm", n)


def _hosts(bench: Bench, _exits: ExitStack, say: Say) -> Iterator[Measure]:
    component = _component(bench, say)
    yield lambda n: edge_starts.host(bench, component, n)


def _containers(bench: Bench, exits: ExitStack, _say: Say) -> Iterator[Measure]:
    child, address = bench.plain()
    exits.enter_context(ended(child))
    marks_told(child, "listening")
    for _ in range(WARM_UP):
        ask_first(address, bench.headers())
    yield lambda n: plain_starts.cold(bench, n)
    yield lambda n: plain_starts.warm(bench, address, n)


def _component(bench: Bench, say: Say) -> Path:
    return build.component(bench.here, "wasmtime", say)
