"""One test bed for all tests of the engine."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from .bed import Bed


@pytest.fixture(scope="session")
def bed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bed]:
    """The engine, a control plane, an account; built first where they are not in the cache."""
    with Bed(tmp_path_factory.mktemp("engine")) as found:
        yield found


@pytest.fixture(autouse=True)
def loops() -> Iterator[None]:
    """Pulumi's SDK leaves event loops open: they end here, where their warning is no error."""
    yield
    gc.collect()
