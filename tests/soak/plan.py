"""The requests of a soak, drawn from a seed, and how the fake upstream answers each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any

from edge_frontend.limits import Limits
from fakes.answer import usage_of
from fakes.ask import Ask, expected_text
from fakes.record import Record
from fakes.script import Script, error_script
from stack.caller import Caller

MAX_BODY_BYTES = 20_000
CONTEXT_TOKENS = 1_024
USUAL = Script(first_content_ms=5, gap_ms=2)
# By the word in the prompt. What fails here is no completed answer in anybody's books.
SCRIPTS: Mapping[str, Script] = {
    "fails-at-once": error_script(500),
    "fails-busy": error_script(503, headers=(("retry-after", "2"),)),
    "fails-in-the-middle": Script(end="rst", end_after=3, gap_ms=5),
    "fails-at-the-end": Script(end="no_done"),
    "fails-with-a-word": Script(end="error", end_after=2),
    "goes-on-and-on": Script(chunks=300, gap_ms=20),
}
# How often each kind comes, in parts.
KINDS: Mapping[str, int] = {
    "stream": 30,
    "whole": 20,
    "cached": 20,
    "aborted": 8,
    "unauthorised": 4,
    "too big": 3,
    "too long": 3,
    **{name: 3 for name in SCRIPTS if name.startswith("fails")},
}


@dataclass(frozen=True, slots=True)
class Wanted:
    """One request. `expected` is the whole text of a right answer."""

    number: int
    kind: str
    caller: Caller
    body: Mapping[str, Any]

    @property
    def expected(self) -> str:
        """What the fake says to it."""
        return expected_text(dict(self.body))

    @property
    def streamed(self) -> bool:
        """Whether it asks for a stream."""
        return bool(self.body.get("stream"))

    @property
    def headers(self) -> Mapping[str, str]:
        """The caller's key, or one of another operator."""
        if self.kind != "unauthorised":
            return self.caller.headers()
        return self.caller.other(secret="another-operators-secret-of-40-characters").headers()


def callers() -> tuple[Caller, ...]:
    """Three tenants; the third one has a limit that it reaches."""
    return Caller(), Caller(), Caller(limits=Limits(rpm=40, par=6))


@dataclass(frozen=True, slots=True)
class Maker:
    """Draws the requests of one run."""

    callers: tuple[Caller, ...] = field(default_factory=callers)
    seed: int = 0

    def wanted(self, number: int) -> Wanted:
        """The request of that number."""
        random = Random(f"{self.seed}:{number}")  # noqa: S311 - to be drawn again
        (kind,) = random.choices(list(KINDS), list(KINDS.values()))
        caller = random.choice(self.callers)
        words = [f"word{random.randrange(1000)}" for _ in range(random.randint(1, 12))]
        text = " ".join([*words, caller.marker])
        fields: dict[str, Any] = {"stream": True} if random.random() < 0.6 else {}
        if kind == "cached":
            text, fields["temperature"] = f"question {random.randrange(8)} of {caller.marker}", 0
        elif kind in SCRIPTS:
            text = f"{kind} {text} {number}"
        elif kind == "aborted":
            text, fields["stream"] = f"goes-on-and-on {text}", True
        elif kind == "too big":
            text = f"{text} {'x' * MAX_BODY_BYTES}"
        elif kind == "too long":
            text = f"{text} {'long ' * 3_800}"
        elif kind == "stream":
            fields |= {"stream": True, "stream_options": {"include_usage": True}}
        elif kind == "whole":
            fields = {}
        messages = [{"role": "user", "content": f"{caller.marker} {text}"}]
        return Wanted(number, kind, caller, {"model": "mock", "messages": messages, **fields})


def generated(records: list[Record], marker: str) -> int:
    """The upstream's own count: tokens of the answers that it completed for one marker."""
    return sum(
        int(usage_of(Ask.of(record.json), USUAL)["completion_tokens"])
        for record in records
        if record.finished
        and marker.encode() in record.body
        and not any(word.encode() in record.body for word in SCRIPTS)
    )
