"""The load client counts what really came; its figures say no more than their samples."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench import figures, load
from bench.load import Plan, Result, Sample
from fakes.script import Script, error_script
from fakes.upstream import Upstream

BODY = json.dumps(
    {"model": "mock", "stream": True, "messages": [{"role": "user", "content": "a b c d"}]}
).encode()


def plan(**fields: Any) -> Plan:
    return Plan(**{"body": lambda _: BODY, "streams": 4, "count": 12, "chunks": 4, **fields})


async def result_of(script: Script, **fields: Any) -> Result:
    async with Upstream(script) as u:
        return await load.run(u.url, plan(**fields))


class TestRun:
    async def test_every_whole_stream_is_counted_once_with_its_instants(self) -> None:
        result = await result_of(Script(role_ms=0, first_content_ms=30, gap_ms=5))
        assert 12 == len(result.good) == len(result.samples)
        for sample in result.good:
            first_byte, content = sample.ms_to("first_byte"), sample.ms_to("first_content")
            ended = sample.ms_to("ended")
            assert first_byte is not None
            assert content is not None
            assert ended is not None
            assert first_byte < 30 <= content < ended
            assert ended >= 45
            assert 4 == sample.chunks

    async def test_connections_are_kept_and_at_most_the_asked_streams_are_open(self) -> None:
        async with Upstream(Script(first_content_ms=5)) as u:
            await load.run(u.url, plan())
        assert (4, 4) == (u.connections, u.peak_active)

    async def test_a_connection_that_the_server_closed_while_idle_is_opened_again(self) -> None:
        result = await result_of(Script(framing="length"), headers=(("Connection", "close"),))
        assert {} == result.errors

    async def test_the_warm_up_is_sent_but_not_counted(self) -> None:
        async with Upstream() as u:
            result = await load.run(u.url, plan(warm_up=2))
        assert (12, 20, 20) == (len(result.samples), result.sent, len(u.requests))

    async def test_a_run_may_be_bounded_by_seconds(self) -> None:
        result = await result_of(Script(first_content_ms=10), count=None, seconds=0.2)
        assert 0.15 < result.elapsed_s < 1.0
        assert len(result.good) > 4

    @pytest.mark.parametrize(
        ("script", "error"),
        [
            (error_script(503), "status 503"),
            (Script(end="error", end_after=2), "2 content deltas, not 4"),
            (Script(end="no_done"), "no [DONE]"),
            (Script(end="fin", end_after=1), "closed in the answer"),
            (Script(end="rst", end_before_head=True), "closed before the answer"),
        ],
    )
    async def test_a_failure_is_counted_and_is_no_latency(self, script: Script, error: str) -> None:
        result = await result_of(script)
        assert {error: 12} == result.errors
        assert 0 == figures.first_content([result]).n
        assert 1.0 == figures.error_rate([result])

    async def test_a_refused_connection_is_a_failure(self) -> None:
        async with Upstream() as u:
            gone = u.url
        assert {"ConnectionRefusedError": 12} == (await load.run(gone, plan())).errors

    async def test_one_byte_a_write_reads_the_same(self) -> None:
        assert 12 == len((await result_of(Script(write_bytes=1))).good)


class TestFigures:
    @given(st.lists(st.floats(-1e6, 1e6), min_size=1), st.floats(0, 1))
    def test_a_percentile_lies_between_the_extremes(self, values: list[float], p: float) -> None:
        found = figures.percentile(values, p)
        assert found is not None
        assert min(values) - 1e-6 <= found <= max(values) + 1e-6

    def test_percentiles_of_known_values(self) -> None:
        assert None is figures.percentile([], 0.5)
        assert 2.5 == figures.percentile([4, 1, 3, 2], 0.5)
        assert 99.0 == figures.percentile(range(101), 0.99)

    @pytest.mark.parametrize(("n", "has_p99"), [(99, False), (100, True)])
    def test_no_p99_under_a_hundred_samples(self, n: int, has_p99: bool) -> None:
        assert has_p99 == (figures.Latency.of([1.0] * n).p99_ms is not None)

    def test_what_was_not_observed_is_none_and_not_zero(self) -> None:
        assert None is Sample(1.0).ms_to("first_content")
        assert None is figures.less(1.0, None)
        assert None is figures.ratio(1.0, None)
        assert None is figures.rate([])
