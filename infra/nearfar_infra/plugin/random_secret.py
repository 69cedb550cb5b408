"""A random secret: made once, kept in the encrypted state, made anew for another generation."""

from __future__ import annotations

import secrets
from collections.abc import Mapping

from nearfar_infra.plugin.kinds import Change, Found, Made, Values, changed, wrong

BYTES = 32
_TYPES: Mapping[str, type] = {"generation": int}


class RandomSecret:
    """Input `generation`; output `value`, 43 characters of base64url, which the program marks."""

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        inputs = {name: value for name, value in news.items() if name != "value"}
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        names = changed({"generation": olds.get("generation")}, news)
        return Change(names, names)

    def create(self, inputs: Values) -> Made:
        made = {"generation": inputs["generation"], "value": secrets.token_urlsafe(BYTES)}
        return Made(secrets.token_hex(8), made)

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        return outputs  # every change is a replacement

    def delete(self, id_: str, outputs: Values) -> None:
        """There is nothing outside the state."""
