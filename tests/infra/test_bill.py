"""The bill's volumes beside the claims that the program really makes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from infra import given, whole
from infra.declared import Program
from nearfar_infra import bill


def sizes(program: Program) -> Counter[str]:
    """How often each size is claimed, in objects of ours and in the values of charts."""
    found: Counter[str] = Counter()
    for resource in program.resources:
        found.update(_claimed(resource.inputs))
    return found


def _claimed(value: Any) -> list[str]:
    if isinstance(value, list):
        return [size for inner in value for size in _claimed(inner)]
    if not isinstance(value, dict):
        return []
    storage = value.get("requests", {}).get("storage") if _is_requests(value) else None
    mine = [storage] if isinstance(storage, str) else []
    return [*mine, *(size for inner in value.values() for size in _claimed(inner))]


def _is_requests(value: dict[str, Any]) -> bool:
    return isinstance(value.get("requests"), dict)


@pytest.mark.parametrize("name", whole.KINDS)
def test_every_claim_of_a_deployment_is_billed(name: str) -> None:
    billed = Counter(f"{gib}Gi" for _, gib in bill.volumes(given.settings(**whole.KINDS[name])))
    assert billed == sizes(whole.kind(name))
