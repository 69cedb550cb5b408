"""The secrets of the local stack: made once, kept in one file that only its owner may read."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nearfar.errors import BadInput

FILE = "secrets.json"


@dataclass(frozen=True, slots=True)
class Credentials:
    """The operator's key secret, the one before it (empty: none), the engine's key, the gate's."""

    key_secret: str = field(repr=False)
    key_secret_previous: str = field(default="", repr=False)
    engine_key: str = field(default="", repr=False)
    gate_secret: str = field(default="", repr=False)


def ensure(path: Path) -> Credentials:
    """Return the kept secrets; make those that are missing."""
    kept = load(path) if path.exists() else Credentials(secrets.token_urlsafe(48))
    made = replace(
        kept,
        engine_key=kept.engine_key or secrets.token_urlsafe(24),
        gate_secret=kept.gate_secret or secrets.token_urlsafe(48),
    )
    if made != kept or not path.exists():
        save(path, made)
    return made


def load(path: Path) -> Credentials:
    """Read a secrets file.

    Raises:
        BadInput: when it cannot be read or is not one; no value is shown.
    """
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        found = Credentials(**document)
        if not all(isinstance(value, str) for value in asdict(found).values()):
            raise TypeError
    except OSError as error:
        raise BadInput(
            f"{path} cannot be read ({error.strerror}).", "name another file."
        ) from error
    except (ValueError, TypeError):
        raise BadInput(
            f"{path} is not a secrets file of nearfar.",
            "remove it; new secrets are made, and old API keys end.",
        ) from None
    return found


def save(path: Path, credentials: Credentials) -> None:
    """Write the file in one step, with mode 600 from its first byte on."""
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        json.dump(asdict(credentials), file, indent=2)
    draft.replace(path)


def rotated(credentials: Credentials) -> Credentials:
    """Return the same with a new operator's secret; the old one stays valid as the previous."""
    return replace(
        credentials,
        key_secret=secrets.token_urlsafe(48),
        key_secret_previous=credentials.key_secret,
    )


def operator_secret(path: Path | None) -> str | None:
    """Return the operator's secret from a file, else from NEARFAR_KEY_SECRET, else None.

    The file is a secrets file of a local stack, or holds the bare secret.
    """
    if path is None:
        return os.environ.get("NEARFAR_KEY_SECRET") or None
    try:
        text = path.read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise BadInput(f"{path} cannot be read.", "name another file.") from error
    return load(path).key_secret if text.startswith("{") else text or None
