"""Measures the load generator itself: its own first-content error against its rate.

    just bench-self [--rate 50] [--requests 400] [--json]

The fake upstream is told its delays, and tells when each request came and when its first content
left. What the generator says beyond that is its error: its own work before the first byte leaves
and after the first content came, with the kernel's and the fake's in it. The limit is the highest
rate up to which half of the requests are off by less than half a millisecond.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from nearfar import runs
from nearfar.exchange import Edge
from nearfar.figures.percentiles import Figure
from nearfar.load import session, synthetic
from nearfar.load.arrivals import Arrivals
from nearfar.load.client import Manner
from nearfar.load.plan import Naming, Plan
from nearfar.load.prompt import Sampling
from nearfar.load.session import Session
from nearfar.load.synthetic import Length
from nearfar.runs import Objectives, Run, surroundings

from .processes import Processes, free_port

RATES = (10.0, 25.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0)
LIMIT_MS = 0.5
FIRST_CONTENT_MS, GAP_MS, CHUNKS = 50, 10, 16
TESTS = Path(__file__).resolve().parent.parent


@dataclass(frozen=True, slots=True)
class Error:
    """What the generator was off by at one rate; milliseconds."""

    rate_per_s: float
    n: int
    error_rate: float
    p50_ms: float | None
    p90_ms: float | None
    p99_ms: float | None
    late_p50_ms: float | None
    late_p99_ms: float | None
    load_average: float

    @property
    def within(self) -> bool:
        """Whether the generator may say that it measures at this rate."""
        return self.p50_ms is not None and self.p50_ms < LIMIT_MS and self.error_rate == 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a row a rate and the limit. Returns 1 where not even the lowest rate is within."""
    parser = argparse.ArgumentParser(prog="bench-self", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rate", type=float, action="append", help="default: 10 to 400 a second")
    parser.add_argument("--requests", type=int, default=400, help="at each rate, up to 1000")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args(arguments)
    rates = sorted(given.rate or RATES)
    with tempfile.TemporaryDirectory() as folder:
        found = list(measured(Path(folder), rates, min(given.requests, 1000)))
    if given.json:
        document = {"machine": surroundings.machine(session.LIBRARIES), "limit_per_s": limit(found)}
        print(json.dumps(document | {"rates": [asdict(each) for each in found]}))
    else:
        print(table(found))
    return int(limit(found) is None)


def measured(folder: Path, rates: Sequence[float], requests: int) -> Sequence[Error]:
    """Measure at each rate, the lowest first."""
    processes = Processes(folder / "logs")
    try:
        url = fake(processes)
        return [_at(url, folder, rate, requests) for rate in rates]
    finally:
        processes.stop()


def fake(processes: Processes) -> str:
    """Start the fake upstream with its known delays, and return its address."""
    url = f"http://127.0.0.1:{free_port()}"
    command = [sys.executable, "-m", "fakes.upstream", "--port", url.rpartition(":")[2]]
    command += ["--first-content-ms", str(FIRST_CONTENT_MS), "--gap-ms", str(GAP_MS)]
    command += ["--chunks", str(CHUNKS)]
    path = os.pathsep.join([str(TESTS), *sys.path])
    processes.start("upstream", command, f"{url}/health", environment={"PYTHONPATH": path})
    return url


def _at(url: str, folder: Path, rate: float, requests: int) -> Error:
    print(f"measuring at {rate:g}/s", file=sys.stderr)
    load_average = surroundings.machine()["load_average_1min"]
    path = folder / f"{rate:g}.jsonl"
    plan = Plan(
        requests=synthetic.requests(1, Length(100, 100), Length(CHUNKS, CHUNKS), 0),
        sampling=Sampling(model="mock"),
        cache="uncontrolled",
        arrivals=Arrivals(process="poisson", rate_per_s=rate, requests=requests),
        warm_up=20,
    )
    session.run(
        Session(
            edge=Edge(url, "none"),
            plan=plan,
            manner=Manner(timeout_s=30.0),
            naming=Naming(),
            objectives=Objectives(),
            path=path,
            run=path.stem,
        )
    )
    run = runs.read(path)
    errors = Figure.of(own_errors(run, times(url)))
    late = Figure.of(sample.late_ms for sample in run.measured)
    return Error(
        rate_per_s=rate,
        n=errors.n,
        error_rate=run.error_rate or 0.0,
        p50_ms=errors.at(0.5),
        p90_ms=errors.at(0.9),
        p99_ms=errors.at(0.99),
        late_p50_ms=late.at(0.5),
        late_p99_ms=late.at(0.99),
        load_average=load_average,
    )


def times(url: str) -> Mapping[str, tuple[float, float]]:
    """When the fake got each of its last requests, and when the first content left; by its id."""
    with urllib.request.urlopen(f"{url}/fake/times", timeout=10) as answer:  # noqa: S310 - the fake
        seen = json.load(answer)
    return {f"chatcmpl-{int(n):032x}": (at, left) for n, (at, left) in seen.items() if left}


def own_errors(run: Run, seen: Mapping[str, tuple[float, float]]) -> list[float]:
    """First content as the generator says it, less what lies between receipt and sending."""
    found = []
    for sample in run.good:
        if sample.request_id in seen and sample.first_content_ms is not None:
            came, left = seen[str(sample.request_id)]
            found.append(sample.first_content_ms - (left - came) * 1000)
    return found


def limit(found: Sequence[Error]) -> float | None:
    """The highest rate up to which every rate is within."""
    best = None
    for each in found:
        if not each.within:
            break
        best = each.rate_per_s
    return best


def table(found: Sequence[Error]) -> str:
    """A row a rate, and the limit in words."""
    names = ("rate/s", "n", "error p50 ms", "p90", "p99", "sent late p50 ms", "p99", "load")
    rows = [
        (
            f"{e.rate_per_s:g}",
            str(e.n),
            *(_cell(v) for v in (e.p50_ms, e.p90_ms, e.p99_ms, e.late_p50_ms, e.late_p99_ms)),
            f"{e.load_average:.1f}",
        )
        for e in found
    ]
    lines = ["| " + " | ".join(row) + " |" for row in (names, ("---",) * len(names), *rows)]
    top = limit(found)
    told = "no rate that was tried" if top is None else f"{top:g} requests a second"
    return "\n".join([*lines, "", f"limit (error p50 below {LIMIT_MS} ms): {told}"])


def _cell(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


if __name__ == "__main__":
    sys.exit(main())
