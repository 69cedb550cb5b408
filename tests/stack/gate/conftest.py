"""The stack with a gate: two edges before one gate and its Redis, and the shared fake upstream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.upstream import UpstreamThread
from stack.edges import Edge
from stack.whole import Whole


@pytest.fixture(scope="session")
def whole(run: Path, upstream: UpstreamThread) -> Iterator[Whole]:
    """One near store, one gate with its Redis."""
    # Places for every burst of these tests: what limits here are the keys' limits.
    settings = {"max_running": 128, "max_waiting": 64, "lease_s": 3}
    with Whole(run, upstream.url, gate_settings=settings) as found:
        yield found


@pytest.fixture(scope="session")
def first(whole: Whole) -> Edge:
    """An edge whose instances serve many requests."""
    return whole.edge()


@pytest.fixture(scope="session")
def second(whole: Whole) -> Edge:
    """Another edge process with a new instance for every request."""
    return whole.edge(reuse_count=1)


@pytest.fixture(scope="session")
def apart(whole: Whole) -> Edge:
    """An edge without a store that it shares with the others."""
    return whole.edge(store="none")
