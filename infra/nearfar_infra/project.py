"""Pulumi.yaml: made from the table of settings, so that the two cannot say different things."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from nearfar_infra import names
from nearfar_infra.fields import FIELDS, Field

INFRA = Path(__file__).resolve().parents[1]
FILE = INFRA / "Pulumi.yaml"
_HEAD = """\
# Made by `python -m nearfar_infra project` from nearfar_infra/fields.py; a test compares them.
"""


def settings() -> dict[str, Any]:
    """The project's file as a value."""
    return {
        "name": names.PROJECT,
        "description": "Both halves of nearfar: vLLM on LKE, and the edge before it.",
        "runtime": {
            "name": "python",
            # `./nearfar` makes this environment; NEARFAR_GROUP=infra asks for it by hand.
            "options": {"toolchain": "pip", "virtualenv": "../.nearfar/env-infra"},
        },
        "plugins": {"providers": [{"name": names.PROJECT, "path": "plugin"}]},
        "config": {f"{names.PROJECT}:{field.key}": _entry(field) for field in FIELDS.values()},
    }


def text() -> str:
    """The file itself. JSON is YAML; a line a setting is what people read."""
    whole = settings()
    config = whole.pop("config")
    head = [f"{key}: {json.dumps(value)}" for key, value in whole.items()]
    lines = [f"  {key}: {json.dumps(value)}" for key, value in config.items()]
    return _HEAD + "\n".join([*head, "config:", *lines]) + "\n"


def _entry(field: Field) -> dict[str, Any]:
    found: dict[str, Any] = {"type": field.kind, "description": field.text}
    if field.kind == "array":
        found["items"] = {"type": "string"}
    if field.secret:
        found["secret"] = True
    # Pulumi wants a value for every key; config.py tells what is missing, all at once.
    found["default"] = _default(field)
    return found


def _default(field: Field) -> Any:
    if isinstance(field.default, tuple):
        return list(field.default)
    if field.default is not None:
        return field.default
    return {"string": "", "array": [], "integer": field.unset}[field.kind]
