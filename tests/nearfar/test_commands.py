"""Every command as it is typed: what it prints, where, and how it ends."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import sample
from fakes.http_edge import HttpEdge, serving
from nearfar import state
from nearfar.__main__ import COMMANDS, HELP
from nearfar.checkout import here
from nearfar.state import State

Run = Callable[..., Any]


@pytest.fixture
def edge() -> Iterator[HttpEdge]:
    with serving(HttpEdge(stream=sample.stream(record=sample.miss()))) as fake:
        yield fake


@pytest.fixture
def at(edge: HttpEdge) -> tuple[str, ...]:
    """The options that name the fake edge."""
    return ("--endpoint", edge.endpoint, "--api-key", edge.key("chat", "trace"))


def test_the_overview_names_every_command_and_the_exit_codes(run: Run) -> None:
    out = run("--help").out
    for name, summary in COMMANDS.items():
        assert f"{name} " in out
        assert summary in out
    for code in ("0", "1", "2", "3", "130"):
        assert f"  {code}  " in HELP


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help_with_examples_and_json(run: Run, name: str) -> None:
    ran = run(name, "--help")
    assert 0 == ran.code
    assert "Examples:" in ran.out
    assert f"nearfar {name}" in ran.out
    if name != "keys":
        assert "--json" in ran.out


@pytest.mark.parametrize("name", ["create", "list", "revoke", "rotate"])
def test_every_keys_command_has_help_with_an_example(run: Run, name: str) -> None:
    out = run("keys", name, "--help").out
    assert "Example" in out
    assert f"nearfar keys {name}" in out
    assert "--json" in out


@pytest.mark.parametrize(
    "words",
    [("frob",), ("up", "--port", "abc"), ("up", "--port", "0"), ("trace",), ("chat", "--frob")],
)
def test_a_wrong_command_line_is_one_line_and_code_2(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert 2 == ran.code
    assert "" == ran.out
    first, second = ran.err.splitlines()
    assert first.startswith("nearfar: ")
    assert second.endswith("--help")


@pytest.mark.parametrize(
    "words",
    [
        ("--once",),
        ("--ask", "Hello", "--detach"),
        ("--model", "mock"),
        ("--upstream", "http://127.0.0.1:8000"),
        ("--upstream", "foo", "--model", "mock"),
        ("--redis", "foo"),
    ],
)
def test_options_of_up_that_do_not_go_together_are_bad_input(
    run: Run, words: tuple[str, ...]
) -> None:
    ran = run("up", *words)
    assert 2 == ran.code
    assert 2 == len(ran.err.splitlines())


def test_up_tells_when_its_upstream_is_not_there(run: Run) -> None:
    ran = run("up", "--upstream", "http://127.0.0.1:1", "--model", "mock", "--port", "39119")
    assert 3 == ran.code
    assert "Nothing answers at --upstream" in ran.err


def test_chat_streams_the_answer_to_stdout(run: Run, at: tuple[str, ...]) -> None:
    ran = run("chat", "Hello", *at)
    assert (0, "Hello you\n", "") == (ran.code, ran.out, ran.err)


def test_an_answer_that_was_cut_says_so_on_stderr(
    run: Run, edge: HttpEdge, at: tuple[str, ...]
) -> None:
    edge.stream = sample.stream(record=sample.miss(), end=sample.CUT)
    told = "(cut at 2 tokens; --max-tokens asks for more)\n"
    ran = run("chat", "Hello", *at)
    assert ("Hello you\n", told) == (ran.out, ran.err)
    assert told == run("trace", "Hello", *at).err
    assert "length" == run("chat", "Hello", *at, "--json").document["finish_reason"]


def test_a_cut_answer_without_usage_says_so_without_a_number(
    run: Run, edge: HttpEdge, at: tuple[str, ...]
) -> None:
    edge.stream = sample.delta("Hello") + sample.CUT + sample.DONE
    told = "(cut at its limit of tokens; --max-tokens asks for more)\n"
    assert told == run("chat", "Hello", *at).err


def test_the_bench_of_the_edge_is_there_without_being_listed(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[list[str]] = []
    monkeypatch.chdir(here().root)
    monkeypatch.setattr(os, "execv", lambda _, argv: called.append(argv))
    assert "bench-edge" not in run("--help").out
    run("bench-edge", "--part", "paced", "--help")
    assert ["-m", "tests.bench.edge", "--part", "paced", "--help"] == called[0][1:]


def test_chat_as_json_is_one_line(run: Run, at: tuple[str, ...]) -> None:
    document = run("chat", "Hello", *at, "--json").document
    assert ("Hello you", "stop", "mock") == (
        document["text"],
        document["finish_reason"],
        document["model"],
    )


def test_the_first_model_offered_is_asked_unless_one_is_named(
    run: Run, edge: HttpEdge, at: tuple[str, ...]
) -> None:
    run("chat", "Hello", *at)
    run("chat", "Hello", *at, "--model", "other")
    assert ["mock", "other"] == [body["model"] for _, body in edge.asked]


def test_a_conversation_without_prompt_has_no_json(run: Run, at: tuple[str, ...]) -> None:
    assert 2 == run("chat", *at, "--json").code


def test_trace_draws_three_lanes_after_the_answer(run: Run, at: tuple[str, ...]) -> None:
    out = run("trace", "Hello", *at).out
    assert out.startswith("Hello you\n")
    for lane in ("client lane", "edge lane", "engine lane", "measures"):
        assert lane in out


def test_trace_as_json_is_the_record_with_the_clients_lane(run: Run, at: tuple[str, ...]) -> None:
    document = run("trace", "Hello", *at, "--json").document
    assert sample.MISS["stages"] == document["stages"]
    assert 0 < document["client"]["end_ms"]
    assert "client" not in document["not_available"]


def test_trace_of_an_edge_without_records_is_told(
    run: Run, edge: HttpEdge, at: tuple[str, ...]
) -> None:
    edge.stream = sample.stream()
    ran = run("trace", "Hello", *at, "--json")
    assert 1 == ran.code
    assert "without a record" in ran.err


def test_an_endpoint_without_a_key_is_bad_input(run: Run, edge: HttpEdge) -> None:
    assert 2 == run("chat", "Hello", "--endpoint", edge.endpoint).code


@pytest.mark.parametrize("words", [("chat", "Hello"), ("trace", "Hello"), ("status",)])
def test_without_a_stack_code_3_and_the_next_step(run: Run, words: tuple[str, ...]) -> None:
    ran = run(*words)
    assert 3 == ran.code
    assert "./nearfar up" in ran.err


def test_the_running_stack_is_asked_by_default(run: Run, edge: HttpEdge) -> None:
    key = edge.key("chat")
    running = State(edge.endpoint, key, "local-model", os.getpid(), "wasmtime", "now", {"edge": 1})
    run("--version")
    with state.held(here()):
        state.write(here(), running)
        assert "Hello you\n" == run("chat", "Hello").out
        document = run("status", "--json").document
        shown = run("status").out
    assert "local-model" == edge.asked[0][1]["model"]
    assert (True, key) == (document["running"], document["api_key"])
    assert edge.endpoint in shown
    assert key not in shown


def test_stopping_where_nothing_runs_is_no_error(run: Run) -> None:
    assert {"stopped": False} == run("down", "--json").document
    assert "no local stack was running\n" == run("down").out


def test_a_stack_that_is_starting_is_told_as_such(run: Run) -> None:
    run("--version")
    with state.held(here()):
        assert {"running": False, "starting": True} == run("status", "--json").document
        assert "is starting" in run("status").err


def test_the_budget_of_the_default_profile_is_that_of_the_published_model(run: Run) -> None:
    """Qwen2.5-7B-Instruct's model card: 7.61 billion parameters, 28 layers, 4 KV heads."""
    document = run("budget", "--json").document
    assert 7.61 == pytest.approx(document["parameters"] / 1e9, abs=0.01)
    assert 2 * 28 * 4 * 128 * 2 == document["kv_bytes_per_token"]


def test_the_budget_of_a_config_file_is_that_of_the_same_model(run: Run, tmp_path: Path) -> None:
    source = here().root / "gpu-backend/gpu_backend/models/smollm2-135m-instruct.json"
    config = tmp_path / "config.json"
    config.write_text(source.read_text())
    name = "HuggingFaceTB/SmolLM2-135M-Instruct"
    expected = run("budget", name, "--gpu", "l4", "--json").document
    found = run("budget", str(config), "--gpu", "l4", "--json").document
    assert expected | {"model": ""} == found | {"model": ""}


@pytest.mark.parametrize(
    "words", [("nope",), ("--gpu", "nope"), ("--context", "99999999"), ("--share", "2")]
)
def test_a_budget_that_cannot_be_counted_is_bad_input(run: Run, words: tuple[str, ...]) -> None:
    ran = run("budget", *words)
    assert 2 == ran.code
    assert 2 == len(ran.err.splitlines())


def test_a_broken_config_file_is_bad_input(run: Run, tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text("{")
    assert 2 == run("budget", str(config)).code


def test_the_doctor_looks_at_everything_and_says_so_as_json(run: Run) -> None:
    ran = run("doctor", "--json")
    findings = {item["name"]: item for item in json.loads(ran.out)["findings"]}
    assert {"python", "git", "uv", "wasmtime", "redis-server", "spin", "memory"} <= set(findings)
    assert "ok" == findings["wasmtime"]["verdict"]
    assert "wasmtime" in findings["wasmtime"]["found"]
    assert json.loads(ran.out)["ready"] == (ran.code == 0)


def test_the_doctor_tells_a_taken_port_with_the_next_step(run: Run, edge: HttpEdge) -> None:
    port = edge.endpoint.rpartition(":")[2]
    ran = run("doctor", "--port", port)
    assert 3 == ran.code
    assert f"missing   port {port}" in ran.out
    assert "next step: " in ran.out
