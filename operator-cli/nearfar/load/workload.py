"""Where the requests of a run come from: a file of prompts, drawn lengths, a recorded trace."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

from nearfar.errors import BadInput
from nearfar.load.prompt import Prompt
from nearfar.runs.header import Source

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Requests:
    """All requests that a run may send, in their order; it begins again after the last one."""

    source: Source
    name: str
    prompts: tuple[Prompt, ...]

    def __post_init__(self) -> None:
        if not self.prompts:
            raise BadInput(f"{self.name} holds no request.", "give a workload with at least one.")

    def __getitem__(self, number: int) -> Prompt:
        return self.prompts[number % len(self.prompts)]

    @property
    def sha256(self) -> str:
        """Digest over everything that is asked, in order: two runs with the same asked the same."""
        lines = (json.dumps(asdict(each), sort_keys=True, default=list) for each in self.prompts)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()

    @property
    def instants(self) -> list[float] | None:
        """When a recorded trace asked; None where any request has no time."""
        times = [each.at_s for each in self.prompts if each.at_s is not None]
        return times if len(times) == len(self.prompts) else None


def prompts(path: Path) -> Requests:
    """Read a file of prompts: a text a line, or (*.jsonl) a JSON object a line.

    An object has `prompt` (text) or `messages`, and may have `id`, `category`, `expected` and
    `max_tokens`.

    Raises:
        BadInput: the file cannot be read, or a line, which is named, is not a request.
    """
    lines = _lines(path)
    if path.suffix != ".jsonl":
        found = [_asked(text, f"line{number}") for number, text in lines]
    else:
        found = [_each(path, number, text, _prompt) for number, text in lines]
    return Requests("prompts", path.name, tuple(found))


def trace(path: Path, synthesise: Callable[[int, int], Sequence[Any]]) -> Requests:
    """Read a recorded trace, a JSON object a line.

    Its time is `at_s` (seconds) or `timestamp` (milliseconds, as Mooncake's traces have it). What
    it asked is as in a file of prompts, or only its length, `input_tokens` and `output_tokens`
    (`input_length`, `output_length`), for which `synthesise(number, tokens)` makes messages. A
    recorded run of nearfar is a trace too: its lengths, at the instants at which it asked.

    Raises:
        BadInput: the file cannot be read, or a line, which is named, is not a request.
    """
    found = []
    for number, text in _lines(path):
        line = _each(path, number, text, lambda entry, n: _traced(entry, n, synthesise))
        if line is not None:
            found.append(line)
    return Requests("trace", path.name, tuple(sorted(found, key=lambda p: p.at_s or 0.0)))


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"{path} cannot be read as text.", "name another file.") from error
    return [(n, line) for n, line in enumerate(text.split("\n"), 1) if line.strip()]


def _each(path: Path, number: int, text: str, make: Callable[[dict[str, Any], int], T]) -> T:
    try:
        entry = json.loads(text)
        if not isinstance(entry, dict):
            raise TypeError("it is not an object")
        return make(entry, number)
    except json.JSONDecodeError:
        why = "it is not JSON"
    except (KeyError, TypeError, ValueError) as wrong:
        why = str(wrong.args[0])
    raise BadInput(f"{path}, line {number}: {why}.", "nearfar bench --help has the forms.")


def _prompt(entry: dict[str, Any], number: int) -> Prompt:
    messages = entry.get("messages")
    if messages is None and isinstance(entry.get("prompt"), str):
        messages = [{"role": "user", "content": entry["prompt"]}]
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise TypeError("it has neither a prompt nor messages")
    return Prompt(
        id=str(entry.get("id", f"line{number}")),
        messages=messages,
        max_tokens=_tokens(entry, "max_tokens"),
        category=_text(entry, "category"),
        expected=_text(entry, "expected"),
    )


def _traced(
    entry: dict[str, Any], number: int, synthesise: Callable[[int, int], Sequence[Any]]
) -> Prompt | None:
    if entry.get("kind") in ("header", "end") or entry.get("phase") == "warmup":
        return None
    at_s = _at_s(entry)
    if "prompt" in entry or "messages" in entry:
        asked = _prompt(entry, number)
        longest = _tokens(entry, "output_tokens", "output_length") or asked.max_tokens
        return Prompt(
            id=asked.id,
            messages=asked.messages,
            max_tokens=longest,
            category=asked.category,
            expected=asked.expected,
            at_s=at_s,
        )
    lengths = entry.get("usage") if entry.get("kind") == "request" else entry
    if lengths is None:  # a recorded request that failed: nobody knows how long it was
        return None
    tokens = _tokens(lengths, "input_tokens", "input_length")
    if tokens is None:
        raise TypeError("it has neither a prompt nor input_tokens")
    return Prompt(
        id=f"line{number}",
        messages=synthesise(number, tokens),
        output_tokens=_tokens(lengths, "output_tokens", "output_length"),
        category=_text(entry, "category"),
        at_s=at_s,
    )


def _at_s(entry: dict[str, Any]) -> float:
    if entry.get("kind") == "request":
        at_s = entry.get("scheduled_s")
        return _second(entry["sent_s"] if at_s is None else at_s)
    if "at_s" in entry:
        return _second(entry["at_s"])
    if "timestamp" in entry:
        return _second(entry["timestamp"]) / 1000
    raise KeyError("it has neither at_s nor timestamp")


def _second(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
        raise TypeError("its time is not a number of at least 0")
    return float(value)


def _tokens(entry: dict[str, Any], *names: str) -> int | None:
    value = next((entry[name] for name in names if entry.get(name) is not None), None)
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < 1):
        raise TypeError(f"{names[0]} is not a whole number above 0")
    return value


def _text(entry: dict[str, Any], name: str) -> str | None:
    value = entry.get(name)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{name} is not text")
    return value


def _asked(text: str, name: str) -> Prompt:
    return Prompt(id=name, messages=[{"role": "user", "content": text}])
