"""What a Linode account holds, kept in a file that the provider and the controllers share."""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

Things = dict[str, dict[str, Any]]

_FIRST_ID = 5001


@dataclass(slots=True)
class State:
    """`things` by kind and id; `faults` names calls that fail, and how often still.

    `clusters_left` is what stood in a cluster when it was deleted: it can never be deleted
    from inside any more, and load balancers and volumes of it stay on the bill.
    """

    things: dict[str, Things] = field(default_factory=dict)
    faults: dict[str, int] = field(default_factory=dict)
    clusters_left: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)
    next_id: int = _FIRST_ID

    def of(self, kind: str) -> Things:
        """All things of a kind, by id."""
        return self.things.setdefault(kind, {})

    def add(self, kind: str, thing: dict[str, Any]) -> str:
        """Keep a thing under a new id."""
        number = str(self.next_id)
        self.next_id += 1
        self.of(kind)[number] = thing
        return number

    def fails(self, call: str) -> bool:
        """Whether this call is to fail; a fault is used up by it."""
        left = self.faults.get(call, 0)
        if left:
            self.faults[call] = left - 1
        return left > 0

    def billed(self) -> list[str]:
        """Everything that costs money or stays visible, as `kind id label`."""
        return [
            f"{kind} {number} {thing.get('label', '')}".strip()
            for kind, things in sorted(self.things.items())
            for number, thing in things.items()
        ]


@dataclass(frozen=True, slots=True)
class Account:
    """The file; it is locked while it is open."""

    path: Path

    @contextmanager
    def open(self) -> Iterator[State]:
        """Read the state, and write it back at the end."""
        with self.path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            state = State(**json.loads(self.path.read_text())) if self.path.exists() else State()
            yield state
            draft = self.path.with_suffix(".draft")
            names = ("things", "faults", "clusters_left", "calls", "next_id")
            draft.write_text(json.dumps({name: getattr(state, name) for name in names}))
            draft.replace(self.path)

    def read(self) -> State:
        """Read the state as it is now."""
        with self.open() as state:
            return state
