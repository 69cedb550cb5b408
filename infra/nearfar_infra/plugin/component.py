"""The edge component as the plugin delivers it: its source, its build, its manifest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from nearfar import build
from nearfar.checkout import Checkout, here
from nearfar.errors import NearfarError
from nearfar_infra.plugin.kinds import KindError

# Akamai Functions takes apps of 50 MiB (techdocs.akamai.com, "Quotas and limits").
LIMIT_BYTES = 50 << 20
_STORES = re.compile(r"^key_value_stores = .*$", re.MULTILINE)


def source() -> str:
    """The hash of all that the component is made from; a diff compares it, and builds nothing."""
    return build.source_hash(here())


def spin_component() -> Path:
    """Build the component for Spin if its source changed."""
    path = _built(here())
    if path.stat().st_size > LIMIT_BYTES:
        raise KindError(
            f"The component has {path.stat().st_size / (1 << 20):.0f} MiB, and Akamai Functions "
            f"takes {LIMIT_BYTES >> 20}.",
            "leave out what it imports and does not need.",
        )
    return path


def manifest(stores: Sequence[str]) -> str:
    """spin.toml with these labels of key-value stores."""
    text = (here().edge / "spin.toml").read_text(encoding="utf-8")
    labels = ", ".join(f'"{label}"' for label in stores)
    return _STORES.sub(f"key_value_stores = [{labels}]", text)


def _built(checkout: Checkout) -> Path:
    try:
        return build.component(checkout, "spin", lambda _: None)
    except NearfarError as error:
        raise KindError(error.message.splitlines()[0], error.next_step) from error
