"""One request of a workload, and how it becomes a body for the chat completions API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is asked. `at_s` is when a recorded trace asked it; None elsewhere.

    `output_tokens` asks for an answer of exactly that length, which only vLLM understands.
    """

    id: str
    messages: Sequence[Mapping[str, Any]]
    max_tokens: int | None = None
    output_tokens: int | None = None
    category: str | None = None
    expected: str | None = None
    at_s: float | None = None

    @property
    def text(self) -> str:
        """The last user text, for who asked to keep it."""
        texts = [m.get("content") for m in self.messages if m.get("role") == "user"]
        return texts[-1] if texts and isinstance(texts[-1], str) else ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How answers are drawn. None leaves a value to the model server."""

    model: str
    temperature: float | None = 0.0
    max_tokens: int | None = None
    include_usage: bool = True
    extra: Mapping[str, Any] | None = None

    def body(self, prompt: Prompt, seed: int | None = None) -> dict[str, Any]:
        """Return the request's body. A `seed` is part of the edge's cache key."""
        found: dict[str, Any] = {
            "model": self.model,
            "messages": list(prompt.messages),
            "stream": True,
        }
        longest = prompt.max_tokens if prompt.max_tokens is not None else self.max_tokens
        if prompt.output_tokens is not None:
            longest = prompt.output_tokens
            found["min_tokens"] = longest
            found["ignore_eos"] = True
        more = {"max_tokens": longest, "temperature": self.temperature, "seed": seed}
        found |= {name: value for name, value in more.items() if value is not None}
        if self.include_usage:
            found["stream_options"] = {"include_usage": True}
        return found | dict(self.extra or {})
