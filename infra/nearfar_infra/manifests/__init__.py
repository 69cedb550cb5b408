"""Kubernetes objects as plain dictionaries: no Pulumi, no cluster, so that every one can be tested.

The components beside this package hand them to the engine.
"""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]
