"""What a kind of resource is to Pulumi: values in, values out, and no gRPC.

Inputs and outputs are plain JSON values. Of an input that is not known yet (during a preview) the
value is `UNKNOWN`. Secrets arrive in clear: Pulumi takes the mark off before and puts it back
after, since outputs keep the names of the inputs (see `components`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

# Pulumi's sign for a value that will be known later.
UNKNOWN = "04da6b54-80e4-46f7-96ec-b56ff0331ba9"

Values = Mapping[str, Any]


class KindError(Exception):
    """One line for the operator: what failed and what to do next. It never holds a secret."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(f"{message} Next step: {next_step}")
        self.message = message
        self.next_step = next_step


@dataclass(frozen=True, slots=True)
class Made:
    """A resource that exists now."""

    id: str
    outputs: Values = field(repr=False)


@dataclass(frozen=True, slots=True)
class Found:
    """What is really there. `inputs` None: those of the state still hold."""

    outputs: Values = field(repr=False)
    inputs: Values | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Change:
    """Which inputs differ, and which of them need a new resource in the old one's place."""

    properties: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()


class Kind(Protocol):
    """One kind of resource."""

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        """Return the inputs as they shall be kept, and what is wrong: property → why."""
        ...

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        """Compare the old inputs with the new ones."""
        ...

    def create(self, inputs: Values) -> Made: ...

    def read(self, id_: str, outputs: Values) -> Found | None:
        """Look at what is there; None where it is gone."""
        ...

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        """Change it in place and return the new outputs."""
        ...

    def delete(self, id_: str, outputs: Values) -> None: ...


def changed(olds: Values, news: Values) -> tuple[str, ...]:
    """Name the properties that differ; one that is not known yet does."""
    names = sorted({*olds, *news} - {name for name in {*olds, *news} if name.startswith("__")})
    return tuple(n for n in names if has_unknown(news.get(n)) or olds.get(n) != news.get(n))


def has_unknown(value: object) -> bool:
    """Whether a value, or one inside it, is not known yet."""
    if isinstance(value, Mapping):
        return any(has_unknown(item) for item in value.values())
    if isinstance(value, list | tuple):
        return any(has_unknown(item) for item in value)
    return value == UNKNOWN


def wrong(news: Values, types: Mapping[str, type]) -> dict[str, str]:
    """Say which properties are missing, unknown to the kind, or of another type."""
    problems = {name: "is not a property of this resource" for name in news if name not in types}
    for name, kind in types.items():
        value = news.get(name)
        if value is None:
            problems[name] = "must be set"
        elif not isinstance(value, kind) and value != UNKNOWN:
            problems[name] = f"must be of type {kind.__name__}"
    return problems
