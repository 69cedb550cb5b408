"""The whole pass on the real engine; its steps build on each other, in this order."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from . import steps
from .bed import Bed
from .steps import Pass, Step

# The first run builds the engine; the pass itself takes minutes.
pytestmark = [
    pytest.mark.timeout(3600),
    # Pulumi's SDK and protobuf warn about their own code.
    pytest.mark.filterwarnings("default"),
]


@pytest.fixture(scope="module")
def run(bed: Bed) -> Iterator[Pass]:
    """A stack on the bed."""
    found = steps.start(bed)
    yield found
    found.api.close()


_failed: list[str] = []


@pytest.mark.parametrize("step", steps.PASS, ids=lambda step: step.__name__)
def test_a_whole_pass_on_the_real_engine(step: Step, run: Pass) -> None:
    if _failed:
        pytest.fail(f"the step {_failed[0]} failed before")
    _failed.append(step.__name__)
    step(run)
    _failed.clear()
