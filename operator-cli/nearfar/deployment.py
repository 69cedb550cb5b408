"""The settings of a deployment as an operator's commands need them, from a stack or from words."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from nearfar import deployed
from nearfar.checkout import Checkout
from nearfar.errors import BadInput
from nearfar_infra import config
from nearfar_infra.errors import ConfigError
from nearfar_infra.fields import FIELDS
from nearfar_infra.settings import Settings

# What has no default and no part in what these commands tell; a stack's own comes first.
_NEEDED = {"apiAllowed": json.dumps(["192.0.2.1/32"]), "acmeEmail": "nobody@example.com"}
# A secret is not decrypted here: that it is set is all that counts.
_HIDDEN = {"redisUrl": "rediss://user:hidden@hidden.example:6379/0"}


def settings(checkout: Checkout, stack: str | None, words: Sequence[str]) -> Settings:
    """Return the settings of a stack, changed by words like `gpuNodesMax=2`.

    Raises:
        BadInput: a word is none, or the settings are wrong; every key is named.
    """
    raw = dict(_NEEDED)
    if stack is not None:
        raw |= _of_stack(checkout, stack)
    raw |= _changes(words)
    try:
        return config.load(raw, root=checkout.root / "infra")
    except ConfigError as error:
        raise BadInput(error.message, error.next_step) from error


def _of_stack(checkout: Checkout, stack: str) -> Mapping[str, str]:
    found = deployed.configuration(checkout, stack)
    return {
        key: _HIDDEN.get(key, "hidden") if value is None else value for key, value in found.items()
    }


def _changes(words: Sequence[str]) -> Mapping[str, str]:
    found = {}
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or key not in FIELDS:
            raise BadInput(
                f"--set {word!r} is not KEY=VALUE of a setting.", "infra/Pulumi.yaml lists them."
            )
        found[key] = value
    return found
