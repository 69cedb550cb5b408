"""Reads a run's file. An end that was cut off is no error; a broken line before it is one."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nearfar.errors import BadInput
from nearfar.runs.decode import Malformed, made
from nearfar.runs.header import SCHEMA, Header
from nearfar.runs.run import End, Run
from nearfar.runs.sample import Sample


def read(path: Path) -> Run:
    """Read the run at `path`.

    Raises:
        BadInput: it cannot be read, is no run, or holds a broken line; the line is named.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BadInput(f"{path} cannot be read ({error.strerror}).", "name a run's file.") from None
    return parse(data, str(path))


def parse(data: bytes, name: str) -> Run:
    """Make a run from a file's bytes; `name` is what errors call it.

    The last line may be cut anywhere: what was written before it stands.
    """
    *whole, tail = data.split(b"\n")
    run = _run(whole, name)
    if not tail.strip():
        return run if run is not None else _no_run(name)
    try:
        last = _line(tail, header=run is None)
    except Malformed:
        return run if run is not None else _no_run(name)
    return _grown(run, [last])


def _run(lines: Iterable[bytes], name: str) -> Run | None:
    parts: list[Header | Sample | End] = []
    for number, line in enumerate(lines, 1):
        try:
            if parts and isinstance(parts[-1], End):
                raise Malformed("it stands after the end")
            parts.append(_line(line, header=not parts))
        except Malformed as wrong:
            if number == 1:
                _no_run(name, f": in line 1 {wrong}")
            raise BadInput(
                f"{name}, line {number} is broken: {wrong}.",
                "remove that line to use the others.",
            ) from None
    return _grown(None, parts) if parts else None


def _line(line: bytes, *, header: bool) -> Header | Sample | End:
    try:
        found = json.loads(line)
    except ValueError:
        raise Malformed("it is not JSON") from None
    if not isinstance(found, dict):
        raise Malformed("it is not an object")
    kind = found.get("kind")
    if header:
        return _header(found, kind)
    if kind == "request":
        return made(Sample, found)
    if kind == "end":
        return made(End, found)
    raise Malformed("it is neither a request nor an end")


def _header(found: dict[str, Any], kind: Any) -> Header:
    if kind != "header":
        raise Malformed("it is not a header")
    if found.get("schema") != SCHEMA:
        raise Malformed(f"it has another form than {SCHEMA}")
    return made(Header, found)


def _grown(run: Run | None, parts: Iterable[Header | Sample | End]) -> Run:
    parts = list(parts)
    samples = tuple(part for part in parts if isinstance(part, Sample))
    ends = [part for part in parts if isinstance(part, End)]
    end = ends[-1] if ends else None
    if run is None:
        header = parts[0]
        assert isinstance(header, Header)  # noqa: S101 - _line makes the first one a header
        return Run(header, samples, end)
    return Run(run.header, run.samples + samples, end or run.end)


def _no_run(name: str, why: str = "") -> Run:
    raise BadInput(
        f"{name} is not a run of nearfar{why or ': it is empty, or cut in its first line'}.",
        "make one with nearfar bench; docs/runs.md has the form.",
    )
