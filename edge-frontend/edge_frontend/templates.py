"""The versioned prompt templates, read from their files when the component is built.

A template says what the operator's system text is and how a user's turn is wrapped. Its version,
which every record and cache key carries, is the file's name and a digest of its content, so that
an edit without a new name is still a new version.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True, slots=True)
class Template:
    """`before` and `after` stand around the text of each user turn."""

    name: str
    version: str
    system: str
    before: str
    after: str


def load(folder: Path) -> Mapping[str, Template]:
    """Every template of a folder, by name."""
    found = (_read(path) for path in sorted(folder.glob("*.toml")))
    return {template.name: template for template in found}


def _read(path: Path) -> Template:
    content = path.read_bytes()
    document: dict[str, Any] = tomllib.loads(content.decode())
    unknown = set(document) - {"system", "user"}
    if unknown or document.get("user", "{text}").count("{text}") != 1:
        raise ValueError(f"{path.name}: only `system`, and `user` with one {{text}}, are known")
    before, _, after = document.get("user", "{text}").partition("{text}")
    digest = hashlib.sha256(content).hexdigest()[:8]
    name = path.stem
    return Template(name, f"{name}+{digest}", document.get("system", ""), before, after)


# Read at import on purpose: componentize-py freezes them into the component, which has no files.
TEMPLATES = load(Path(__file__).parent.parent / "templates")
