"""Writes a run's file line by line as it happens: what was measured survives a kill."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from io import BufferedWriter
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from nearfar.errors import BadInput
from nearfar.runs.decode import document
from nearfar.runs.header import Header
from nearfar.runs.run import Reason
from nearfar.runs.sample import Sample


class RunWriter:
    """A context manager; when it is left without `end`, the run is written down as failed.

    An interrupt (KeyboardInterrupt) makes it `interrupted`.
    """

    def __init__(self, path: Path, header: Header) -> None:
        """Write the header.

        Raises:
            BadInput: the file is there already or cannot be made.
        """
        self.path = path
        self.requests = 0
        self._ended = False
        self._file = _opened(path)
        self._write("header", document(header))

    def add(self, sample: Sample) -> None:
        """Write one request."""
        self.requests += 1
        self._write("request", document(sample))

    def end(self, reason: Reason = "done") -> None:
        """Write the last line, once."""
        if self._ended:
            return
        self._ended = True
        at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self._write("end", {"ended_at": at, "requests": self.requests, "reason": reason})

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
            self.end("interrupted" if stopped else "failed")
        finally:
            self._file.close()

    def _write(self, kind: str, fields: dict[str, Any]) -> None:
        line = json.dumps({"kind": kind, **fields}, ensure_ascii=False, separators=(",", ":"))
        self._file.write(line.encode("utf-8", "surrogatepass") + b"\n")
        self._file.flush()


def _opened(path: Path) -> BufferedWriter:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise BadInput(f"{path} is there already.", "name another file with --out.") from None
    except OSError as error:
        raise BadInput(
            f"{path} cannot be written ({error.strerror}).", "name another file with --out."
        ) from None
    return os.fdopen(handle, "wb")
