"""What is wrong with the settings, all of it at once."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

T = TypeVar("T")


class Wrong(ValueError):
    """Each problem of one setting, fit to stand after the name of its variable."""

    def __init__(self, *problems: str) -> None:
        super().__init__("; ".join(problems))
        self.problems = problems


class Reading:
    """Reads the parts of one setting and remembers what is wrong with each of them."""

    def __init__(self) -> None:
        self.problems: list[str] = []

    def part(self, read: Callable[[], T], where: str = "") -> T | None:
        """What `read` answers; None where it raised a ValueError, which is remembered."""
        try:
            return read()
        except Wrong as error:
            self.problems += [where + problem for problem in error.problems]
        except ValueError as error:
            self.problems.append(where + str(error))
        return None

    def each(self, read: Callable[[str, Any], T], entries: Mapping[str, Any]) -> dict[str, T]:
        """What `read` answers for each name and entry, without those that are wrong."""
        before, found = len(self.problems), dict[str, T]()
        for name, entry in entries.items():
            value = self.part(functools.partial(read, name, entry))
            if len(self.problems) == before:
                found[name] = value  # type: ignore[assignment]
            before = len(self.problems)
        return found

    def check(self) -> None:
        """Raise Wrong if anything was."""
        if self.problems:
            raise Wrong(*self.problems)
