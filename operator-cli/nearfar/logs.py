"""Log files of the parts, read for people."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path

LAST_LINES = 15
_MAX_LINE_CHARS = 240
# Colours and cursor movements (ECMA-48 control sequences) of programs that believe in a terminal.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Tail:
    """Reads the new whole lines of a growing log file, tidied for a terminal."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._offset = 0

    def lines(self) -> Iterator[str]:
        """Yield each line that was completed since the last call."""
        try:
            with self._path.open("rb") as handle:
                handle.seek(self._offset)
                data = handle.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        yield from tidy(whole)


def tidy(data: bytes) -> Iterator[str]:
    """Yield readable lines: no control sequences, no empty lines, none longer than a screen."""
    for line in data.decode("utf-8", "replace").splitlines():
        text = _CONTROL.sub("", line).rstrip()
        if text:
            text = brief(text)
            yield text if len(text) <= _MAX_LINE_CHARS else text[:_MAX_LINE_CHARS] + " …"


def last_lines(log: Path, count: int = LAST_LINES) -> list[str]:
    """Return the last lines of a log file; none where it does not exist."""
    try:
        return list(deque(tidy(log.read_bytes()), maxlen=count))
    except FileNotFoundError:
        return []


def brief(line: str) -> str:
    """Shorten the edge's account of one request to a line that fits a screen; others stay."""
    if not line.startswith('{"time"'):
        return line
    try:
        record = json.loads(line)
    except ValueError:
        return line
    instants = record.get("edge") or {}
    shown = (
        ("", record.get("status"), ""),
        ("cache ", record.get("cache"), ""),
        ("", record.get("model"), ""),
        ("first content ", instants.get("t5"), " ms"),
        ("total ", instants.get("t6"), " ms"),
        ("", record.get("error"), ""),
        ("", record.get("request_id"), ""),
    )
    return " · ".join(
        f"{before}{value}{unit}" for before, value, unit in shown if value is not None
    )
