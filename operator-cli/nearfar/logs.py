"""Log files of the parts, read for people."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

LAST_LINES = 15
_MAX_LINE_CHARS = 240
# Colours and cursor movements (ECMA-48 control sequences) of programs that believe in a terminal.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
# What programs call their errors, Python's and Rust's last words among them.
_TROUBLE = re.compile(
    r"error\b|exception\b|critical\b|fatal\b|panicked\b|^traceback", re.IGNORECASE
)

Wanted = Callable[[str], bool]


def is_trouble(line: str) -> bool:
    """Whether a line tells of an error; the edge's account of a request does if it failed."""
    record = _record(line)
    return bool(_TROUBLE.search(line)) if record is None else record.get("error") is not None


def is_any(_line: str) -> bool:
    """Every line."""
    return True


class Tail:
    """Reads the new whole lines of a growing log file, tidied for a terminal."""

    def __init__(self, path: Path, *, wanted: Wanted = is_any, from_end: bool = False) -> None:
        self._path = path
        self._wanted = wanted
        self._offset = path.stat().st_size if from_end and path.exists() else 0

    def lines(self) -> Iterator[str]:
        """Yield each wanted line that was completed since the last call."""
        try:
            with self._path.open("rb") as handle:
                handle.seek(self._offset)
                data = handle.read()
        except FileNotFoundError:
            return
        whole = data[: data.rfind(b"\n") + 1]
        self._offset += len(whole)
        yield from tidy(whole, self._wanted)


def tidy(data: bytes, wanted: Wanted = is_any) -> Iterator[str]:
    """Yield the wanted lines, readable: no control sequences, none empty or beyond a screen."""
    for line in data.decode("utf-8", "replace").splitlines():
        text = _CONTROL.sub("", line).rstrip()
        if text and wanted(text):
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
    record = _record(line)
    if record is None:
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


def _record(line: str) -> dict[str, Any] | None:
    """Return the edge's account of one request if the line is one."""
    if not line.startswith('{"time"'):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None
