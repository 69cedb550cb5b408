"""What a command can fail with: one line, the next step, and an exit code.

    NearfarError            1  the command ran and failed
    ├── Refused             1  the edge answered, and its answer was an error
    ├── BadInput            2  the command line or a file that it names is wrong
    └── Missing             3  a part is missing, dead or does not answer
        └── PartDied        3  a part of the stack ended; carries its last lines

An interrupt (ctrl-C) ends a command with 130, as shells do.
"""

from __future__ import annotations

from collections.abc import Sequence


class NearfarError(Exception):
    """A failure that is told in one line, with the step that helps."""

    exit_code = 1

    def __init__(self, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step


class Refused(NearfarError):
    """The edge refused a request; `status` and `code` are those of its error object."""

    def __init__(
        self, message: str, next_step: str = "", *, status: int = 0, code: str = ""
    ) -> None:
        super().__init__(message, next_step)
        self.status = status
        self.code = code


class BadInput(NearfarError):
    exit_code = 2


class Missing(NearfarError):
    exit_code = 3


class PartDied(Missing):
    """A part of the stack ended by itself."""

    def __init__(self, message: str, next_step: str, last_lines: Sequence[str]) -> None:
        super().__init__(message, next_step)
        self.last_lines = tuple(last_lines)
