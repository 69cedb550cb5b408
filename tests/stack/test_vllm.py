"""The real vLLM on this machine's CPU, behind the real edge.

tests/stack/conftest.py starts it.
"""

from __future__ import annotations

import time
from typing import Any

import httpx
import openai
import pytest

from gpu_backend.server import Server
from gpu_backend.spec import ServingSpec
from stack.answers import events, facts_of_stream, record_of_stream, told, valid
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, Edge, Edges, settings
from stack.stores import RedisServer
from stack.streams import leaver

# The first run installs vLLM, which is a download of gigabytes.
pytestmark = pytest.mark.timeout(1200)
PROMPT = "Name three colours of the rainbow."
LONG: dict[str, Any] = {"max_tokens": 1500, "ignore_eos": True}
KINDS = {"warm": None, "fresh": 1}


@pytest.fixture(params=KINDS)
def edge(
    request: pytest.FixtureRequest,
    own_edges: Edges,
    vllm: Server,
    spec: ServingSpec,
    store: RedisServer,
) -> Edge:
    """Both kinds of edge before vLLM; the context is not known to them."""
    entry = {
        "url": vllm.url,
        "model": spec.served_name,
        "revision": spec.revision,
        "serving_hash": spec.serving_hash,
    }
    wanted = settings({"mock": entry}, store.url)
    return own_edges.start(wanted, reuse_count=KINDS[request.param])


def ask(caller: Caller, **fields: Any) -> dict[str, Any]:
    """A question that this small model can take; the marker keeps it apart from other tests'."""
    return caller.body(PROMPT, **({"max_tokens": 24} | fields))


class TestAnswer:
    def test_a_stream_brings_text_usage_and_the_engines_lane(
        self, edge: Edge, caller: Caller, spec: ServingSpec
    ) -> None:
        body = ask(caller, stream=True, stream_options={"include_usage": True})
        answer = caller.post(edge, body, x_nearfar_trace="1")
        assert (200, "miss") == (answer.status_code, answer.headers["x-cache"])
        *_, before_record, _, _ = events(answer.content)
        assert before_record["usage"]["completion_tokens"] <= 24
        record = record_of_stream(answer.content)
        assert 1 == record["trips"]["far"]
        assert spec.revision == record["model_revision"]
        assert record["tokens"]["output"] == before_record["usage"]["completion_tokens"]
        lane, edge_lane = record["engine"], record["edge"]
        for name in ("queue_time_ms", "time_to_first_token_ms", "generation_time_ms"):
            assert lane[name] >= 0
        assert 0 < lane["mean_itl_ms"] < 1000
        # The engine's durations nest under the call; they are never added to the edge's.
        call_ms = edge_lane["t4"] - edge_lane["t3"]
        assert lane["queue_time_ms"] + lane["time_to_first_token_ms"] <= call_ms
        assert lane["generation_time_ms"] <= edge_lane["t6"] - edge_lane["t3"]
        assert 0 <= record["derived"]["unattributed"] < call_ms

    def test_the_second_answer_is_a_hit_and_equal(self, edge: Edge, caller: Caller) -> None:
        with_usage = {"stream": True, "stream_options": {"include_usage": True}}
        miss = caller.post(edge, ask(caller, **with_usage))
        hit, whole = caller.post(edge, ask(caller, **with_usage)), caller.post(edge, ask(caller))
        found = [answer.headers["x-cache"] for answer in (miss, hit, whole)]
        assert ["miss", "hit", "hit"] == found
        facts = facts_of_stream(miss.content)
        assert facts == facts_of_stream(hit.content) == told(whole.json())
        assert facts["choices"][0]["message"]["content"].strip()

    def test_a_whole_answer_says_what_a_stream_says(
        self, edge: Edge, vllm: Server, caller: Caller, spec: ServingSpec
    ) -> None:
        """And what vLLM itself says to the same question, at temperature 0."""
        whole = caller.post(edge, ask(caller), x_nearfar_trace="1").json()
        valid(whole["nearfar"])
        direct = httpx.post(
            f"{vllm.url}/v1/chat/completions",
            json=ask(caller) | {"model": spec.served_name},
            headers={"authorization": f"Bearer {UPSTREAM_KEY}"},
            timeout=60,
            trust_env=False,
        ).json()
        assert told(direct)["choices"] == told(whole)["choices"]
        assert direct["usage"]["total_tokens"] == whole["usage"]["total_tokens"]

    def test_two_choices_have_no_engine_lane_and_say_why(self, edge: Edge, caller: Caller) -> None:
        body = ask(caller, n=2, temperature=0.9, seed=3)
        document = caller.post(edge, body, x_nearfar_trace="1").json()
        assert 2 == len(document["choices"])
        record = valid(document["nearfar"])
        assert record["engine"] is None
        assert record["not_available"]["engine"]

    def test_a_field_that_the_edge_does_not_know_takes_effect(
        self, edge: Edge, caller: Caller
    ) -> None:
        answer = caller.post(edge, ask(caller, min_tokens=12, max_tokens=12)).json()
        assert 12 == answer["usage"]["completion_tokens"]
        assert "length" == answer["choices"][0]["finish_reason"]


class TestErrors:
    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_context_that_is_too_long_is_passed_on(
        self, edge: Edge, caller: Caller, spec: ServingSpec, *, streamed: bool
    ) -> None:
        words = "word " * (spec.context_tokens + 100)
        body: Any = caller.body(words, max_tokens=4, stream=streamed)
        with caller.openai(edge) as client, pytest.raises(openai.BadRequestError) as caught:
            client.chat.completions.create(**body)
        assert "context_length_exceeded" == caught.value.code
        assert str(spec.context_tokens) in caught.value.message

    def test_a_field_that_vllm_refuses_is_a_bad_request(self, edge: Edge, caller: Caller) -> None:
        with caller.openai(edge) as client, pytest.raises(openai.BadRequestError):
            client.chat.completions.create(**ask(caller, top_p=7.0))

    def test_an_edge_with_another_key_is_refused_without_a_word_of_it(
        self, own_edges: Edges, vllm: Server, spec: ServingSpec, caller: Caller
    ) -> None:
        keys = '{"gpu-mock": "not-the-key-of-the-server"}'
        entry = {"url": vllm.url, "model": spec.served_name}
        edge = own_edges.start(settings({"mock": entry}, "none", upstream_keys=keys))
        answer = caller.post(edge, ask(caller))
        assert 502 == answer.status_code
        assert "not-the-key" not in answer.text + edge.log_text()
        assert ["upstream gpu-mock"] == caller.get(edge, "/readyz").json()["not_ready"]


class TestGone:
    @pytest.mark.parametrize("streamed", [False, True])
    def test_a_client_that_leaves_ends_the_work_of_the_engine(
        self, edge: Edge, vllm: Server, caller: Caller, *, streamed: bool
    ) -> None:
        with leaver(edge, caller, ask(caller, stream=streamed, **LONG)) as client:
            _wait_for(vllm, running=1, within_s=10)
            time.sleep(0.7)  # it runs on, and one body's head has left
            assert 1 == running_requests(vllm)
            left = client.leave("rst")
            _wait_for(vllm, running=0, within_s=5)
            took = time.monotonic() - left
        # A second for the edge, and what vLLM takes to see and to count it.
        assert took < 2.5
        assert 200 == caller.post(edge, ask(caller)).status_code


def running_requests(vllm: Server) -> int:
    """How many requests vLLM works on, by its own count."""
    text = httpx.get(f"{vllm.url}/metrics", timeout=10, trust_env=False).text
    lines = [line for line in text.splitlines() if line.startswith("vllm:num_requests_running")]
    return round(sum(float(line.rpartition(" ")[2]) for line in lines))


def _wait_for(vllm: Server, *, running: int, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while running_requests(vllm) != running:
        assert time.monotonic() < deadline, f"vLLM's running count is not {running}"
        time.sleep(0.05)
