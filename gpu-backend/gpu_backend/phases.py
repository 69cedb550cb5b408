"""Where a starting vLLM is, read from its log; unknown lines change nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

TAIL_LINES = 20


@dataclass(frozen=True, slots=True)
class Phase:
    """A stretch of the start. `begins_with` is a text of the log line that opens it."""

    name: str
    doing: str
    usual_s: float
    begins_with: str | None


# Durations: cpu-small on two cores, imports already compiled. Lines: vLLM 0.32.
PHASES = (
    Phase("imports", "importing vLLM and reading the model's shape", 16, None),
    Phase("engine", "starting the engine's own processes", 8, "Initializing a V1 LLM engine"),
    Phase("weights", "loading the weights", 2, "Starting to load model"),
    Phase("kv_cache", "laying out the KV cache and warming up", 4, "Loading weights took"),
    Phase("http", "opening the HTTP server", 2, "init engine (profile"),
)
ANSWER = Phase("answer", "waiting for the first token of a first request", 1, None)


class LogFollower:
    """Reads a growing log file from its start; `read` returns the phase it has come to."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0
        self._rest = b""
        self._at = 0

    def read(self) -> Phase:
        """Take what was written since the last call; a line counts once it is whole."""
        with self._path.open("rb") as file:
            file.seek(self._offset)
            written = file.read()
        self._offset += len(written)
        *lines, self._rest = (self._rest + written).split(b"\n")
        for line in lines:
            self._advance(line.decode(errors="replace"))
        return PHASES[self._at]

    def _advance(self, line: str) -> None:
        for at in range(self._at + 1, len(PHASES)):
            opening = PHASES[at].begins_with
            if opening is not None and opening in line:
                self._at = at


def tail(path: Path, lines: int = TAIL_LINES) -> tuple[str, ...]:
    """Return the last lines that are not empty; none where there is no log."""
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ()
    return tuple([line for line in text.splitlines() if line.strip()][-lines:])
