"""The engine's own words for a failed run, cut down to the line that says what to look at."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

# "  kubernetes:batch/v1:Job (engine-files-fetch):" heads what the engine says of one resource.
_HEAD = re.compile(r"\s*(?P<type>[\w./-]+:[\w./:-]+) \((?P<name>[^)]+)\):\s*")
_STACK = "pulumi:pulumi:Stack"
# They say that something failed, and not what.
_FRAMES = ("update failed", "preview failed", "Resource monitor has terminated", "an unhandled")
_AWAITED = "failed to fully initialize"


def told(text: str) -> str:
    """Return the reasons of the first resource that failed, or of the program; one line."""
    reasons = list(_reasons(text.splitlines()))
    if not reasons:
        return "Pulumi failed."
    name = reasons[0][0]
    own = list(dict.fromkeys(reason for of, reason in reasons if of == name))
    said = "; ".join(reason.rstrip(".") for reason in own)
    return f"{name}: {said}." if name else f"{said}."


def _reasons(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Every reason with the resource that it is told of; the program's own have no name."""
    name, listed = "", False
    for line in lines:
        head = _HEAD.fullmatch(line)
        if head:
            name, listed = ("" if head["type"] == _STACK else head["name"]), False
            continue
        text = line.strip()
        if text.startswith("error:"):
            text = text.removeprefix("error:").strip()
            listed = text.endswith(("errors occurred:", "error occurred:"))
            if text and not listed and not any(frame in text for frame in _FRAMES):
                yield name, text
        elif listed and text.startswith("* ") and _AWAITED not in text:
            yield name, text.removeprefix("* ")
