"""The first tenant's API key: made once, replaced before it ends, never shown by this plugin."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass

from edge_frontend import keys
from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, changed, wrong

_TYPES: Mapping[str, type] = {
    "operatorSecret": str,
    "tenant": str,
    "permissions": list,
    "models": list,
    "days": int,
    "rotation": str,
}
# A key is made anew when less than this part of its life is left.
RENEWED_AT = 0.1


@dataclass(frozen=True, slots=True)
class ApiKey:
    """`operatorSecret` (secret), `tenant`, `permissions`, `models`, `days` of life, and `rotation`:
    any text, another one makes another key. Outputs besides: `key` (secret), `expiresAt`.
    """

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        defaults = {"permissions": ["chat", "trace"], "models": ["*"], "days": 90, "rotation": "1"}
        inputs = {**defaults, **news}
        return inputs, wrong(inputs, _TYPES)

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        names = changed({name: olds.get(name) for name in _TYPES}, news)
        if not names and _ends_soon(outputs):
            names = ("days",)
        return Change(names, names)

    def create(self, inputs: Values) -> Made:
        ends = int(time.time()) + inputs["days"] * 86_400
        try:
            claims = keys.Claims(
                secrets.token_hex(6),
                inputs["tenant"],
                ends,
                tuple(inputs["models"]),
                tuple(inputs["permissions"]),
            )
            key = keys.mint(inputs["operatorSecret"], claims)
        except ValueError as error:
            raise KindError(
                f"No API key can be made: {error}.", "correct the first tenant's settings."
            ) from error
        return Made(claims.key_id, {**inputs, "key": key, "expiresAt": ends})

    def read(self, id_: str, outputs: Values) -> Found | None:
        return Found(outputs)

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        raise KindError("A key cannot be changed.", "every change replaces it; report this.")

    def delete(self, id_: str, outputs: Values) -> None:
        """The edge may be gone already; `nearfar keys revoke` ends a key before its time."""


def _ends_soon(outputs: Values) -> bool:
    left_s = outputs.get("expiresAt", 0) - time.time()
    return bool(left_s < outputs.get("days", 0) * 86_400 * RENEWED_AT)
