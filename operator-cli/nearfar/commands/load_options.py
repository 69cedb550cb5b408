"""The options that say what load is put on an edge, and what they become."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import click

from nearfar.errors import BadInput
from nearfar.load import synthetic, workload
from nearfar.load.arrivals import Arrivals, Process, traced
from nearfar.load.client import Manner
from nearfar.load.plan import Plan
from nearfar.load.prompt import Sampling
from nearfar.load.synthetic import Length
from nearfar.load.workload import Requests
from nearfar.runs import Objectives

F = TypeVar("F", bound=Callable[..., Any])

_OBJECTIVES = {
    "first-content": "first_content_ms",
    "tpot": "tpot_ms",
    "end-to-end": "end_to_end_ms",
}
# Distinct synthetic requests are drawn up to here; a longer run begins again.
_DRAWN = 10_000
_INPUT, _OUTPUT = Length(128, 128), Length(32, 32)


def options(command: F) -> F:
    """Add the options of a load to a command."""
    file = click.Path(path_type=Path)
    for option in (
        click.option("--keep-text", is_flag=True, help="Write prompts and answers into the run."),
        click.option("--timeout", type=click.FloatRange(0.1), default=180.0, show_default=True),
        click.option(
            "--objective",
            "objectives",
            multiple=True,
            help="first-content=MS, tpot=MS or end-to-end=MS; goodput counts who keeps all.",
        ),
        click.option("--no-record", is_flag=True, help="Do not ask for the account of time."),
        click.option("--no-usage", is_flag=True, help="Do not ask for usage in the stream."),
        click.option("--temperature", type=click.FloatRange(0, 2), default=0.0, show_default=True),
        click.option("--max-tokens", type=click.IntRange(1), help="Longest answer, in tokens."),
        click.option(
            "--cache",
            type=click.Choice(["cold", "warm", "bypass", "uncontrolled"]),
            default="cold",
            show_default=True,
            help="cold: every request is new to the cache, by its seed; warm: asked before.",
        ),
        click.option("--warm-up", type=click.IntRange(0), default=4, show_default=True),
        click.option(
            "--seed", type=int, default=0, show_default=True, help="Of all that is drawn."
        ),
        click.option("--output-tokens", help="Tokens of an answer: 32, or 16-64 (vLLM)."),
        click.option("--input-tokens", help="Tokens of a drawn prompt: 128, or 100-300."),
        click.option(
            "--prompts", type=file, help="A text a line, or *.jsonl with prompt/messages."
        ),
        click.option("--speed", type=click.FloatRange(0.001), default=1.0, help="Of the trace."),
        click.option(
            "--trace", type=file, help="Recorded requests with their instants (JSON lines)."
        ),
        click.option("--ramp-to", type=click.FloatRange(0.001), help="The rate at a ramp's end."),
        click.option("--burst-size", type=click.IntRange(1), help="Requests of one burst."),
        click.option(
            "--process",
            type=click.Choice(["poisson", "constant", "burst", "ramp"]),
            help="How requests arrive in an open loop. Default: poisson.",
        ),
        click.option("--duration", type=click.FloatRange(0.1), help="Seconds of load."),
        click.option("--requests", type=click.IntRange(1), help="Requests to measure."),
        click.option("--concurrency", type=click.IntRange(1), help="Closed loop: so many at once."),
        click.option("--rate", type=click.FloatRange(0.001), help="Open loop: requests a second."),
    ):
        command = option(command)
    return command


@dataclass(frozen=True, slots=True)
class Asked:
    """What the options say, but for the model, which the target knows."""

    requests: Requests
    ways: Mapping[str, Any]
    sampling: Mapping[str, Any]
    manner: Manner
    objectives: Objectives

    def plan(self, model: str) -> Plan:
        """The plan for a model."""
        sampling = Sampling(model=model, **self.sampling)
        return Plan(requests=self.requests, sampling=sampling, **self.ways)


def read(given: Mapping[str, Any]) -> Asked:
    """Turn the options' values into a load.

    Raises:
        BadInput: they do not go together, or a file that they name is wrong.
    """
    requests = _requests(given)
    return Asked(
        requests=requests,
        ways=_ways(given, requests),
        sampling={
            "temperature": given["temperature"],
            "max_tokens": given["max_tokens"],
            "include_usage": not given["no_usage"],
        },
        manner=Manner(
            trace=not given["no_record"],
            timeout_s=given["timeout"],
            keep_text=given["keep_text"],
        ),
        objectives=objectives(given["objectives"]),
    )


def objectives(words: tuple[str, ...]) -> Objectives:
    """Read `first-content=500` and the like."""
    found: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            if name not in _OBJECTIVES or not float(value) > 0:
                raise ValueError
            found[_OBJECTIVES[name]] = float(value)
        except ValueError:
            raise BadInput(
                f"{word!r} is not an objective.",
                "give first-content=MS, tpot=MS or end-to-end=MS.",
            ) from None
    return Objectives(**found)


def _requests(given: Mapping[str, Any]) -> Requests:
    lengths = given["input_tokens"] or given["output_tokens"]
    if sum(map(bool, (given["prompts"], given["trace"], lengths))) > 1:
        raise BadInput(
            "The requests come from more than one place.",
            "pass one of --prompts, --trace and --input-tokens/--output-tokens.",
        )
    seed = given["seed"]
    if given["prompts"]:
        return workload.prompts(given["prompts"])
    if given["trace"]:
        return workload.trace(given["trace"], lambda n, t: synthetic.messages(seed, n, t))
    inputs = Length.parse(given["input_tokens"]) if given["input_tokens"] else _INPUT
    outputs = Length.parse(given["output_tokens"]) if given["output_tokens"] else _OUTPUT
    # A bound by time alone does not say how many there will be.
    count = min(given["requests"] or _DRAWN, _DRAWN)
    return synthetic.requests(count, inputs, outputs, seed)


def _ways(given: Mapping[str, Any], requests: Requests) -> dict[str, Any]:
    """How requests arrive. Without a word about it, one after the other, twenty of them."""
    found: dict[str, Any] = {name: given[name] for name in ("cache", "warm_up", "seed")}
    closed = given["concurrency"]
    if given["trace"] and closed is None:
        if given["rate"] is not None:
            raise BadInput("A trace has its own rate.", "pass --speed to make it faster.")
        return found | {"instants": _instants(given, requests)}
    if given["rate"] is not None and closed is None:
        return found | {"arrivals": _arrivals(given)}
    for name in ("rate", "process", "burst_size", "ramp_to"):
        if given[name] is not None:
            raise BadInput(
                f"--{name.replace('_', '-')} is for an open loop.",
                "pass --rate, not --concurrency.",
            )
    count = given["requests"]
    if count is None and given["duration"] is None:
        count = 20
    return found | {
        "concurrency": closed or 1,
        "count": count,
        "duration_s": given["duration"],
    }


def _arrivals(given: Mapping[str, Any]) -> Arrivals:
    process: Process = given["process"] or "poisson"
    for name, wanted in (("burst_size", "burst"), ("ramp_to", "ramp")):
        if (given[name] is not None) != (process == wanted):
            raise BadInput(
                f"--{name.replace('_', '-')} and --process {wanted} go together.",
                "pass both or none.",
            )
    count = given["requests"]
    if count is None and given["duration"] is None:
        count = 100
    return Arrivals(
        process=process,
        rate_per_s=given["rate"],
        requests=count,
        duration_s=given["duration"],
        burst_size=given["burst_size"] or 1,
        ramp_to_per_s=given["ramp_to"],
        seed=given["seed"],
    )


def _instants(given: Mapping[str, Any], requests: Requests) -> tuple[float, ...]:
    found = traced(requests.instants or (), speed=given["speed"])
    if given["duration"] is not None:
        found = tuple(at for at in found if at < given["duration"])
    return found[: given["requests"]]
