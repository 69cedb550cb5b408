"""The file of measured starts: `nearfar.coldstart/1`, one JSON object a line as it happens.

    {"kind": "header", "schema": "nearfar.coldstart/1", "started_at", "nearfar", "command",
     "placements", "subjects", "repeats", "machine", "clock"}
    {"kind": "start", and the fields of `steps.Start`}
    {"kind": "absent", "subject", "why"}        what was asked for and could not be measured
    {"kind": "end", "ended_at", "starts", "reason": "done|interrupted|failed"}

A file that was cut off is read up to its last whole line.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from nearfar import __version__
from nearfar.errors import BadInput
from nearfar.placement.steps import Start
from nearfar.runs import surroundings
from nearfar.runs.decode import Malformed, document, made

SCHEMA = "nearfar.coldstart/1"


@dataclass(frozen=True, slots=True)
class Header:
    """What was asked for, and on which machine. `repeats` of quick subjects and of slow ones."""

    schema: str
    started_at: str
    nearfar: str
    command: tuple[str, ...]
    placements: tuple[str, ...]
    subjects: tuple[str, ...]
    repeats: tuple[int, ...]
    machine: Mapping[str, Any]
    clock: str


@dataclass(frozen=True, slots=True)
class Absent:
    """What could not be measured, and why."""

    subject: str
    why: str


@dataclass(slots=True)
class Recording:
    """Everything that was measured so far; with a file, each line is in it when it is here."""

    header: Header
    starts: list[Start] = field(default_factory=list)
    absent: list[Absent] = field(default_factory=list)
    reason: str | None = None
    file: TextIOWrapper | None = None

    def add(self, start: Start) -> None:
        """Keep one start."""
        self.starts.append(start)
        self._write("start", document_of(start))

    def leave_out(self, subject: str, why: str) -> None:
        """Say that a subject was not measured."""
        self.absent.append(Absent(subject, why))
        self._write("absent", {"subject": subject, "why": why})

    def end(self, reason: str) -> None:
        """Write the last line."""
        self.reason = reason
        ended = {"ended_at": now(), "starts": len(self.starts), "reason": reason}
        self._write("end", ended)
        if self.file is not None:
            self.file.close()
            self.file = None

    def of(self, subject: str, condition: str) -> list[Start]:
        """The cold starts of one subject, or the warm ones."""
        return [s for s in self.starts if (s.subject, s.condition) == (subject, condition)]

    def document(self) -> dict[str, Any]:
        """All of it as one JSON object."""
        return {
            **document(self.header),
            "starts": [document_of(start) for start in self.starts],
            "absent": [document(each) for each in self.absent],
            "reason": self.reason,
        }

    def _write(self, kind: str, fields: Mapping[str, Any]) -> None:
        if self.file is not None:
            self.file.write(json.dumps({"kind": kind, **fields}, ensure_ascii=False) + "\n")
            self.file.flush()


def begin(
    command: Sequence[str],
    placements: Sequence[str],
    subjects: Sequence[str],
    repeats: Sequence[int],
    path: Path | None,
) -> Recording:
    """A recording that begins now, in a file if one is named.

    Raises:
        BadInput: the file is there already or cannot be written.
    """
    clock = time.get_clock_info("monotonic")
    header = Header(
        schema=SCHEMA,
        started_at=now(),
        nearfar=__version__,
        command=tuple(command),
        placements=tuple(placements),
        subjects=tuple(subjects),
        repeats=tuple(repeats),
        machine=surroundings.machine(),
        clock=f"{clock.implementation}, resolution {clock.resolution:g} s",
    )
    recording = Recording(header, file=_opened(path) if path else None)
    recording._write("header", document(header))  # noqa: SLF001 - its own first line
    return recording


def read(path: Path) -> Recording:
    """Read a file back.

    Raises:
        BadInput: it is no such file, or broken before its last line.
    """
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}).", "check its name.") from error
    entries = list[dict[str, Any]]()
    for number, line in enumerate(lines, 1):
        try:
            entries.append(_entry(line))
        except ValueError:
            if number == len(lines):
                break  # it was cut off
            raise _broken(path, number) from None
    if not entries or entries[0].get("schema") != SCHEMA:
        raise BadInput(f"{path} is no recording of starts.", f"its first line says {SCHEMA}.")
    return _recording(path, entries)


def _recording(path: Path, entries: Sequence[Mapping[str, Any]]) -> Recording:
    recording = Recording(_header(path, entries[0]))
    for number, entry in enumerate(entries[1:], 2):
        try:
            _take(recording, entry)
        except (Malformed, KeyError, ValueError):
            raise _broken(path, number) from None
    return recording


def _header(path: Path, entry: Mapping[str, Any]) -> Header:
    try:
        return made(Header, entry)
    except Malformed:
        raise _broken(path, 1) from None


def _take(recording: Recording, entry: Mapping[str, Any]) -> None:
    if entry["kind"] == "start":
        recording.starts.append(made(Start, entry))
    elif entry["kind"] == "absent":
        recording.absent.append(made(Absent, entry))
    elif entry["kind"] == "end":
        recording.reason = str(entry["reason"])


def document_of(start: Start) -> dict[str, Any]:
    """A start as a JSON object."""
    return {**document(start), "steps": [document(step) for step in start.steps]}


def now() -> str:
    """This moment in UTC."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


def _entry(line: str) -> dict[str, Any]:
    entry = json.loads(line)
    if not isinstance(entry, dict):
        raise ValueError
    return entry


def _broken(path: Path, number: int) -> BadInput:
    return BadInput(f"Line {number} of {path} is broken.", "measure again, or mend that line.")


def _opened(path: Path) -> TextIOWrapper:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("x", encoding="utf-8")
    except FileExistsError:
        raise BadInput(f"{path} is there already.", "name another file with --out.") from None
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}).", "name another file with --out."
        ) from None
