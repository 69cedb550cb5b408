"""A random secret: made once, kept in the encrypted state, made anew by another generation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, changed, wrong

_TYPES: Mapping[str, type] = {"generation": int}
# 256 bits, 43 characters of base64url.
BYTES = 32


@dataclass(frozen=True, slots=True)
class RandomSecret:
    """`generation` is any number. Output besides: `value` (secret)."""

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        # The program names its output among the inputs, without a value.
        inputs = {name: value for name, value in news.items() if name != "value"}
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        names = changed({name: olds.get(name) for name in _TYPES}, news)
        return Change(names, names)

    def create(self, inputs: Values) -> Made:
        return Made(secrets.token_hex(8), {**inputs, "value": secrets.token_urlsafe(BYTES)})

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        raise KindError("A secret cannot be changed.", "every change replaces it; report this.")

    def delete(self, id_: str, outputs: Values) -> None:
        """Who still has it keeps it; what it opened takes the new one."""
