"""Malformed requests: an error object or a right answer each, and no 5xx of the edge's own."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

from fuzz.cases import Maker
from fuzz.report import lines
from fuzz.run import run
from stack.alone import Alone

COUNT = 2_000


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    with Alone(tmp_path_factory.mktemp("malformed")) as found:
        yield found


async def test_every_reply_is_an_error_object_or_a_right_answer(alone: Alone) -> None:
    """`just fuzz` sends ten times as many."""
    outcome = await run(alone.edge.url, Maker(alone.key), COUNT, print)
    faults = alone.faults()
    assert COUNT == outcome.sent
    assert (0, []) == (outcome.wrong_count, faults), "\n".join(lines(outcome, faults))
    # The run has seen both ways out, or it would prove nothing.
    ends = {end for _, end in outcome.ends}
    assert {"200", "400", "401", "404", "405", "413", "closed", "host 400"} <= ends


def test_the_edge_goes_on_after_them(alone: Alone) -> None:
    body = {"model": "mock", "messages": [{"role": "user", "content": "still there?"}]}
    answer = httpx.post(
        f"{alone.edge.url}/v1/chat/completions",
        json=body,
        headers={"authorization": f"Bearer {alone.key}"},
        trust_env=False,
    )
    assert "yes and no" == answer.json()["choices"][0]["message"]["content"]


def test_a_case_can_be_made_again() -> None:
    assert [Maker("k", 3).case(n) for n in range(60)] == [Maker("k", 3).case(n) for n in range(60)]
