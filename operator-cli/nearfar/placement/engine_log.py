"""The steps of a starting vLLM, by the lines of its log; each ends when its line is seen.

The log's own clock has whole seconds, so the instant is when the line was read, `POLL_S` late at
the most. Lines: vLLM 0.32; one that never comes leaves its step unseen, and says so.
"""

from __future__ import annotations

import re
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from nearfar.placement.steps import Mark

POLL_S = 0.02


@dataclass(frozen=True, slots=True)
class Ending:
    """A step, and a text of the line that ends it."""

    step: str
    text: str


ENDINGS = (
    Ending("process and imports", "non-default args:"),
    Ending("engine process and its imports", "Initializing a V1 LLM engine"),
    Ending("worker process", "Starting to load model"),
    Ending("weights", "Loading weights took"),
    Ending("KV cache", "KV cache size:"),
    Ending("warm-up", "init engine (profile, create kv cache, warmup model) took"),
    Ending("HTTP server", "Application startup complete"),
)
FIRST_TOKEN = "first token"  # noqa: S105 - of a language model
# What it says of itself, beside the steps: seconds of the engine's own clock.
_OWN_WORDS = {
    "weights": re.compile(r"Loading weights took ([\d.]+) seconds"),
    "profile, KV cache, warm-up": re.compile(r"init engine \([^)]*\) took ([\d.]+) s"),
}


@dataclass(slots=True)
class LogMarks:
    """Takes a log as it grows; `seen_ms` has the ends of steps since the beginning."""

    seen_ms: dict[str, float] = field(default_factory=dict)
    own_words_s: dict[str, float] = field(default_factory=dict)
    _rest: bytes = b""

    def feed(self, data: bytes, at_ms: float) -> None:
        """Take what was written since the last call; a line counts once it is whole."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            self._take(line.decode(errors="replace"), at_ms)

    def marks(self, answered_ms: float) -> list[Mark]:
        """The whole start: each step's end, or that its line did not come."""
        marks = list[Mark]()
        for ending in ENDINGS:
            at_ms = self.seen_ms.get(ending.step)
            why = "" if at_ms is not None else "its line did not come in the log"
            marks.append(Mark(ending.step, at_ms, why))
        return [*marks, Mark(FIRST_TOKEN, answered_ms)]

    def note(self) -> str:
        """What the engine says of itself."""
        return ", ".join(f"{name} {s:g} s" for name, s in self.own_words_s.items())

    def _take(self, line: str, at_ms: float) -> None:
        # A line counts only after those before it: another process may repeat an earlier one.
        reached = max((i for i, e in enumerate(ENDINGS) if e.step in self.seen_ms), default=-1)
        for ending in ENDINGS[reached + 1 :]:
            if ending.text in line:
                self.seen_ms[ending.step] = at_ms
                break
        for name, pattern in _OWN_WORDS.items():
            if found := pattern.search(line):
                self.own_words_s[name] = float(found[1])


class Follower:
    """Follows a log file in a thread from the moment it is made until `stop`."""

    def __init__(self, path: Path) -> None:
        self.marks = LogMarks()
        self.began_s, self._began = time.time(), time.monotonic()
        self._path, self._offset, self._over = path, 0, threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def since_ms(self) -> float:
        """Now, since the beginning."""
        return (time.monotonic() - self._began) * 1000

    def stop(self) -> None:
        """Read what is left and end."""
        self._over.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._over.wait(POLL_S):
            self._read()
        self._read()

    def _read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._offset)
                data = file.read()
        except OSError:
            return
        self._offset += len(data)
        if data:
            self.marks.feed(data, self.since_ms())
