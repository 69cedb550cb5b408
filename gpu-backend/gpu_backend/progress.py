"""What a long step tells about itself while it runs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

State = Literal["started", "running", "done"]


@dataclass(frozen=True, slots=True)
class Progress:
    """One report of one step.

    `step` is a short stable name, `doing` a phrase for people. `usual_s` is how long the step
    usually takes, None where nobody can say. Bytes are None until they are known.
    """

    step: str
    doing: str
    state: State
    usual_s: float | None = None
    elapsed_s: float = 0.0
    bytes_done: int | None = None
    bytes_total: int | None = None


ProgressCallback = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """Take a report and show nothing."""
