"""The gate's settings, from variables NEARFAR_GATE_*; every wrong one is named at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import urlsplit

from gpu_backend.errors import GpuBackendError

WithoutRedis = Literal["open", "closed"]

PREFIX = "NEARFAR_GATE_"
LEAST_SECRET_CHARS = 32
_KNOWN = (
    "SECRET",
    "SECRET_PREVIOUS",
    "API_KEY",
    "REDIS",
    "REDIS_TIMEOUT_MS",
    "WITHOUT_REDIS",
    "MAX_RUNNING",
    "MAX_WAITING",
    "LEASE_S",
)


class SettingsError(GpuBackendError):
    """Names every variable that is wrong (`problems`: variable → what it should be)."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{name} {problem}" for name, problem in problems.items())
        super().__init__(f"The gate's settings are not valid: {listed}.", "correct the named ones.")
        self.problems = dict(problems)


@dataclass(frozen=True, slots=True)
class Settings:
    """How one gate works. Without `secrets` it is off and lets everything pass.

    `max_running` is what the engine computes at once (its max_num_seqs), `max_waiting` how many
    more may stand in its queue; both count choices. `lease_s` is how long a slot outlives a gate
    that was killed. `api_key` is asked of every caller, for a server behind it that asks for none.
    """

    secrets: tuple[bytes, ...] = field(default=(), repr=False)
    api_key: bytes | None = field(default=None, repr=False)
    redis: str | None = field(default=None, repr=False)
    redis_timeout_ms: int = 100
    without_redis: WithoutRedis = "open"
    max_running: int = 16
    max_waiting: int = 8
    lease_s: int = 15


def from_environment(variables: Mapping[str, str]) -> Settings:
    """Read the settings; an empty variable counts as not set.

    Raises:
        SettingsError: it names every wrong or unknown variable and holds none of the values.
    """
    given = {
        name.removeprefix(PREFIX): value
        for name, value in variables.items()
        if name.startswith(PREFIX) and value
    }
    problems = {name: "is not a setting of the gate" for name in given if name not in _KNOWN}
    problems |= _wrong(given)
    if problems:
        raise SettingsError({PREFIX + name: problem for name, problem in problems.items()})
    numbers = {name.lower(): int(given[name]) for name in _NUMBERS if name in given}
    return Settings(
        secrets=tuple(
            given[name].encode() for name in ("SECRET", "SECRET_PREVIOUS") if name in given
        ),
        api_key=given["API_KEY"].encode() if "API_KEY" in given else None,
        redis=given.get("REDIS"),
        without_redis="closed" if given.get("WITHOUT_REDIS") == "closed" else "open",
        **numbers,
    )


def _wrong(given: Mapping[str, str]) -> dict[str, str]:
    found = {
        name: problem
        for name, (right, problem) in _CHECKS.items()
        if name in given and not right(given[name])
    }
    if "SECRET_PREVIOUS" in given and "SECRET" not in given:
        found |= {"SECRET_PREVIOUS": "needs a current secret beside it"}
    return found


def _whole(value: str, least: int, most: int) -> bool:
    return value.isascii() and value.isdigit() and len(value) < 10 and least <= int(value) <= most


def _is_redis(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return parts.scheme in ("redis", "rediss") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return False


def _between(least: int, most: int) -> tuple[Callable[[str], bool], str]:
    problem = f"must be a whole number from {least} to {most}"
    return (lambda value: _whole(value, least, most)), problem


_LONG = (
    lambda value: len(value) >= LEAST_SECRET_CHARS,
    f"must have at least {LEAST_SECRET_CHARS} characters",
)
_NUMBERS = {
    "REDIS_TIMEOUT_MS": _between(1, 10_000),
    "MAX_RUNNING": _between(1, 100_000),
    "MAX_WAITING": _between(0, 100_000),
    "LEASE_S": _between(3, 600),
}
_CHECKS: dict[str, tuple[Callable[[str], bool], str]] = {
    "SECRET": _LONG,
    "SECRET_PREVIOUS": _LONG,
    "API_KEY": _LONG,
    "REDIS": (_is_redis, "must be redis://[:password@]host:port/db"),
    "WITHOUT_REDIS": (lambda value: value in ("open", "closed"), "must be open or closed"),
    **_NUMBERS,
}
