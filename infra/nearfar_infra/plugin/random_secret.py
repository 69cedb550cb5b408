"""A random secret: made once, kept in the encrypted state, made anew for another generation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from nearfar_infra.plugin.kinds import Change, Found, Made, Values, changed, wrong

BYTES = 32
_TYPES: Mapping[str, type] = {"generation": int}


class RandomSecret:
    """Input `generation`; outputs `value`, 43 characters of base64url, and `previous`, the value of
    the generation before it (empty: none), which may be valid beside it. The program marks both.
    """

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        inputs = {name: value for name, value in news.items() if name in _TYPES}
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        return Change(changed({"generation": olds.get("generation")}, news))

    def create(self, inputs: Values) -> Made:
        return Made(secrets.token_hex(8), _another(inputs, ""))

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        return _another(news, outputs["value"])

    def delete(self, id_: str, outputs: Values) -> None:
        """There is nothing outside the state."""


def _another(inputs: Values, previous: str) -> Values:
    value = secrets.token_urlsafe(BYTES)
    return {"generation": inputs["generation"], "value": value, "previous": previous}
