"""A record of one request as the edge sends it, with the client's lane that is measured here.

docs/record.schema.json is the form. Each lane has a clock of its own: nothing in one lane is ever
subtracted from anything in another.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from nearfar.errors import NearfarError

SCHEMA = "nearfar.record/1"


@dataclass(frozen=True, slots=True)
class ClientLane:
    """Instants on the client's monotonic clock, in ms since it began; None: not observed.

    `connected_ms` includes the look-up of the name. A connection that was open already has
    neither `connected_ms` nor `tls_ms`. `first_content_ms` is the first non-empty content,
    reasoning or tool-call delta.
    """

    connected_ms: float | None = None
    tls_ms: float | None = None
    first_byte_ms: float | None = None
    first_content_ms: float | None = None
    end_ms: float | None = None

    def missing(self, *, secure: bool) -> dict[str, str]:
        """Say why each instant that was not observed was not."""
        ended = "the request ended before"
        reasons = {
            "connected_ms": "the connection was open already",
            "tls_ms": "the connection was open already" if secure else "the endpoint has no TLS",
            "first_byte_ms": ended,
            "first_content_ms": "the answer had no content",
            "end_ms": ended,
        }
        seen = asdict(self)
        return {f"client.{name}": why for name, why in reasons.items() if seen[name] is None}


@dataclass(frozen=True, slots=True)
class Record:
    """One request in three lanes; `document` is the edge's record with the client's lane in it."""

    document: Mapping[str, Any]

    def value(self, path: str) -> Any:
        """Return a field by its dotted name; None where it, or what holds it, is null."""
        found: Any = self.document
        for name in path.split("."):
            if not isinstance(found, Mapping):
                return None
            found = found.get(name)
        return found

    def why_not(self, path: str) -> str:
        """Return why a field is null: its own reason, or that of what holds it."""
        reasons = self.document.get("not_available") or {}
        while path:
            if path in reasons:
                return str(reasons[path])
            path = path.rpartition(".")[0]
        return "no reason given"


def merged(edge: Mapping[str, Any], client: ClientLane, *, secure: bool) -> Record:
    """Put the client's lane into the edge's record.

    Raises:
        NearfarError: when the edge speaks another version of the record.
    """
    if edge.get("schema") != SCHEMA:
        raise NearfarError(
            f"The edge sent a record of the form {edge.get('schema')!r}, this is for {SCHEMA!r}.",
            "use the command line of the same release as the edge.",
        )
    absent = dict(edge.get("not_available") or {})
    absent.pop("client", None)
    absent |= client.missing(secure=secure)
    return Record({**edge, "client": asdict(client), "not_available": absent})
