"""Whether two runs can be compared: the same question, asked in the same way."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from nearfar.errors import BadInput
from nearfar.runs import Header

# What has to be equal, in words; --allow NAME lets a difference pass.
ASPECTS: Mapping[str, str] = {
    "model": "the model",
    "workload": "the requests that were sent",
    "load": "how they arrived",
    "cache": "the state of the answer cache",
    "machine": "the machine that measured",
}


@dataclass(frozen=True, slots=True)
class Unlike:
    """One thing in which two runs differ that should be equal."""

    aspect: str
    what: str
    before: Any
    after: Any

    def __str__(self) -> str:
        return f"{self.what} {_shown(self.before)} and {_shown(self.after)}"


def differences(before: Header, after: Header) -> tuple[Unlike, ...]:
    """Return everything that stands in the way of a fair comparison."""
    found = []
    for aspect, what, one, two in _looked_at(before, after):
        if one != two:
            found.append(Unlike(aspect, what, one, two))
    return tuple(found)


def check(before: Header, after: Header, allowed: Collection[str]) -> tuple[Unlike, ...]:
    """Return the differences that were allowed.

    Raises:
        BadInput: there is one that was not.
    """
    found = differences(before, after)
    refused = [each for each in found if each.aspect not in allowed]
    if refused:
        told = "; ".join(str(each) for each in refused)
        names = " ".join(f"--allow {name}" for name in dict.fromkeys(e.aspect for e in refused))
        raise BadInput(
            f"These runs are unlike each other: {told}.",
            f"measure both in the same way, or add {names} and read the warnings.",
        )
    return found


def _looked_at(before: Header, after: Header) -> list[tuple[str, str, Any, Any]]:
    one, two = before.workload, after.workload
    found: list[tuple[str, str, Any, Any]] = [
        ("model", "model", before.target.model, after.target.model)
    ]
    if one.sha256 and two.sha256:
        found.append(("workload", "workload", one.sha256[:12], two.sha256[:12]))
    else:
        found.append(("workload", "workload", (one.source, one.name), (two.source, two.name)))
    found += [
        ("workload", name, getattr(one, name), getattr(two, name))
        for name in ("seed", "max_tokens", "temperature")
    ]
    found += [
        ("load", name.replace("_", " "), getattr(before.load, name), getattr(after.load, name))
        for name in ("process", "rate_per_s", "concurrency")
    ]
    found.append(("cache", "cache", before.cache, after.cache))
    found += [
        ("machine", f"machine's {name}", before.machine.get(name), after.machine.get(name))
        for name in sorted(_MACHINE & (set(before.machine) & set(after.machine)))
    ]
    return found


# What of a machine bears on its timings; free memory and the like differ from run to run.
_MACHINE = {"processor", "cores", "system"}


def _shown(value: Any) -> str:
    return "unknown" if value is None else repr(value) if isinstance(value, str) else str(value)
