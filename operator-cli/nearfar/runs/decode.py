"""Makes the dataclasses of a run from JSON objects, and objects from them.

The dataclasses' own types are the form: nothing is said twice. Fields that a class does not
have are left out, so that a later version may add some.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from functools import cache
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
Take = Callable[[Any], Any]
# A field's name, what takes it, and whether it must be there.
Plan = tuple[tuple[str, Take, bool], ...]
# Written only when there is something to say.
_SPARSE = frozenset({"not_available", "prompt", "answer", "expected", "arm"})


class Malformed(ValueError):
    """A value that does not have the form; the message names the field and never its value."""


def made(kind: type[T], document: Any) -> T:
    """Make one dataclass from a JSON object.

    Raises:
        Malformed: a field is missing or of another type.
    """
    if not isinstance(document, Mapping):
        raise Malformed("is not an object")
    given: dict[str, Any] = {}
    hashable: Any = kind
    plan: Plan = _plan(hashable)
    for name, take, required in plan:
        if name in document:
            try:
                given[name] = take(document[name])
            except Malformed as wrong:
                inner = str(wrong)
                joined = f"{name}.{inner}" if isinstance(document[name], Mapping) else None
                raise Malformed(joined or f"{name} {inner}") from None
        elif required:
            raise Malformed(f"{name} is missing")
    return kind(**given)


def document(value: Any) -> dict[str, Any]:
    """Return a dataclass as a JSON object; shares what it holds with the original."""
    found = {}
    for field in fields(value):
        item = getattr(value, field.name)
        if not item and field.name in _SPARSE:
            continue
        found[field.name] = document(item) if is_dataclass(item) else item
    return found


@cache
def _plan(kind: Any) -> Plan:
    hints = get_type_hints(kind)
    return tuple(
        (
            field.name,
            _taker(hints[field.name]),
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    )


def _taker(hint: Any) -> Take:
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        [inner] = [_taker(a) for a in arguments if a is not type(None)]
        return lambda value: None if value is None else inner(value)
    if origin is Literal:
        return lambda value: _one_of(value, arguments)
    if origin is tuple:
        item = _taker(arguments[0])
        return lambda value: tuple(map(item, _typed(value, list, "is not a list")))
    if origin is not None and issubclass(origin, Mapping):
        return lambda value: _typed(value, dict, "is not an object")
    return _PLAIN.get(hint) or (lambda value: made(hint, value))


def _typed(value: Any, kind: type, wrong: str) -> Any:
    # True is an int to Python; in a run it is a mistake.
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        raise Malformed(wrong)
    return value


def _one_of(value: Any, allowed: tuple[Any, ...]) -> Any:
    if not isinstance(value, str) or value not in allowed:
        raise Malformed(f"is none of {', '.join(map(str, allowed))}")
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Malformed("is not a number")
    return float(value)


_PLAIN: Mapping[Any, Take] = {
    str: lambda value: _typed(value, str, "is not text"),
    int: lambda value: _typed(value, int, "is not a whole number"),
    bool: lambda value: _typed(value, bool, "is not true or false"),
    float: _number,
    Any: lambda value: value,
}
