"""Our namespaces, each with default-deny policies and with what is needed by name."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from nearfar_infra.settings import Settings


@dataclass(frozen=True, slots=True)
class NamespacesArgs:
    settings: Settings


class Namespaces(pulumi.ComponentResource):
    """`ready[name]` is the namespace's name once its policies are in force."""

    ready: dict[str, pulumi.Output[str]]
