"""`nearfar up` as a program of its own: a real edge on wasmtime, a real Redis, a fake upstream."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import openai
import pytest
import redis

from fakes.upstream import UpstreamThread
from gpu_backend.gate import limiter
from nearfar import build, state
from nearfar.checkout import Checkout, here, python_path
from nearfar.ports import free_port

# The machine may be busy with other tests.
START_S = 90


@pytest.fixture(scope="module")
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread(api_key="up-key") as fake:
        yield fake


@pytest.fixture(scope="module", autouse=True)
def component() -> Path:
    """Built before, so that no test's time goes to it."""
    return build.component(here(), "wasmtime", lambda _: None)


@dataclass(frozen=True, slots=True)
class Nearfar:
    """Runs the command line with a run folder of its own."""

    run: Path

    @property
    def env(self) -> dict[str, str]:
        return os.environ | {
            "NEARFAR_RUN_DIR": str(self.run),
            "NEARFAR_UPSTREAM_KEY": "up-key",
            "PYTHONPATH": python_path(here()),
        }

    def argv(self, *words: str) -> list[str]:
        return [sys.executable, "-P", "-m", "nearfar", *words]

    def __call__(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.argv(*words), env=self.env, capture_output=True, text=True, timeout=START_S
        )

    @contextmanager
    def up(self, *words: str) -> Iterator[Up]:
        """A stack in the foreground that is ready; it is ended with the block if it still runs."""
        log = self.run.with_suffix(".err")
        with (
            log.open("wb") as err,
            subprocess.Popen(
                self.argv("up", "--json", *words), env=self.env, stdout=subprocess.PIPE, stderr=err
            ) as process,
        ):
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line, log.read_text()
            found = state.read(Checkout(here().root, self.run))
            assert found is not None
            try:
                yield Up(process, json.loads(line), found.parts, log)
            finally:
                process.terminate()


@dataclass(frozen=True, slots=True)
class Up:
    """A running `nearfar up`."""

    process: subprocess.Popen[bytes]
    line: dict[str, Any]
    parts: Any
    log: Path

    def ask(self, text: str, **fields: Any) -> str:
        with openai.OpenAI(
            base_url=self.line["endpoint"] + "/v1", api_key=self.line["api_key"], max_retries=0
        ) as client:
            answer = client.chat.completions.create(
                model=self.line["model"], messages=[{"role": "user", "content": text}], **fields
            )
        return answer.choices[0].message.content or ""


@pytest.fixture
def nearfar(tmp_path: Path) -> Nearfar:
    return Nearfar(tmp_path / "run")


@pytest.fixture
def options(upstream: UpstreamThread) -> tuple[str, ...]:
    return ("--upstream", upstream.url, "--model", "mock", "--port", str(free_port()))


def wait_for(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + 20
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.05)


def runs(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
    return stat.rpartition(")")[2].split()[0] != "Z"


def test_one_line_of_json_is_all_that_a_client_needs(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with nearfar.up(*options) as up:
        assert {"endpoint", "api_key", "model", "pid"} == set(up.line)
        assert up.process.pid == up.line["pid"]
        assert up.ask("Hello")


def test_ctrl_c_leaves_no_process_behind(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    with nearfar.up(*options) as up:
        assert {"store", "edge"} == set(up.parts)
        up.process.send_signal(signal.SIGINT)
        assert 130 == up.process.wait(20)
        assert not any(runs(pid) for pid in up.parts.values())


def test_killing_it_leaves_no_process_behind(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    with nearfar.up(*options) as up:
        up.process.kill()
        up.process.wait()
        wait_for(lambda: not any(map(runs, up.parts.values())), "a part was left behind")


def test_a_dead_edge_stops_all_and_its_last_lines_are_shown(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with nearfar.up(*options) as up:
        os.kill(up.parts["edge"], signal.SIGKILL)
        assert 3 == up.process.wait(20)
        assert not any(runs(pid) for pid in up.parts.values())
        told = up.log.read_text()
    assert "The part 'edge' was ended by signal 9." in told
    assert any(line.startswith("    | ") for line in told.splitlines())


def test_answers_go_on_when_the_store_is_killed(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    with nearfar.up(*options) as up:
        os.kill(up.parts["store"], signal.SIGKILL)
        wait_for(lambda: "going on without the store" in up.log.read_text(), "it was not told")
        assert up.ask("Hello", temperature=0)
        assert up.process.poll() is None


def test_a_question_is_answered_twice_and_the_second_time_from_the_cache(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    ran = nearfar("up", *options, "--ask", "Hello there", "--once")
    assert 0 == ran.returncode, ran.stderr
    assert ["x-cache: miss", "x-cache: hit"] == [
        line for line in ran.stdout.splitlines() if line.startswith("x-cache")
    ]
    assert 2 == ran.stdout.count("application_first_content_latency")
    assert not state.is_running(Checkout(here().root, nearfar.run))


def test_answers_as_json_are_one_line_each(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    ran = nearfar("up", *options, "--ask", "Hello there", "--once", "--json")
    ready, first, second = map(json.loads, ran.stdout.splitlines())
    assert "mock" == ready["model"]
    assert first["text"] == second["text"]
    assert ("miss", "hit") == (first["record"]["cache"], second["record"]["cache"])


def test_a_stack_in_the_background_is_found_and_stopped(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    try:
        started = nearfar("up", *options, "--detach", "--json")
        assert 0 == started.returncode, started.stderr
        line = json.loads(started.stdout)
        assert line["endpoint"] == json.loads(nearfar("status", "--json").stdout)["endpoint"]
        assert 0 == nearfar("chat", "Hello").returncode
        refused = nearfar("up", *options)
        assert 1 == refused.returncode
        assert "running already" in refused.stderr
        key = json.loads(nearfar("keys", "create", "--tenant", "a", "--json").stdout)
        listed = json.loads(nearfar("keys", "list", "--json").stdout)["keys"]
        assert {"nearfar up", ""} == {entry["label"] for entry in listed}
        assert 0 == nearfar("keys", "revoke", key["key_id"]).returncode
    finally:
        stopped = nearfar("down")
    assert "stopped\n" == stopped.stdout
    assert not runs(line["pid"]), "it was told too early"


@contextmanager
def detached(nearfar: Nearfar, options: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """A stack in the background, stopped with the block."""
    started = nearfar("up", *options, "--detach", "--json")
    assert 0 == started.returncode, started.stderr
    assert "ctrl-C" not in started.stderr
    try:
        yield json.loads(started.stdout)
    finally:
        assert 0 == nearfar("down").returncode


def test_keys_and_revocations_outlive_a_restart(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    with detached(nearfar, options) as first:
        key = json.loads(nearfar("keys", "create", "--tenant", "a", "--json").stdout)
        assert 0 == nearfar("chat", "Hello", "--api-key", key["api_key"]).returncode
        assert 0 == nearfar("keys", "revoke", key["key_id"]).returncode
    with detached(nearfar, options):
        refused = nearfar("chat", "Hello", "--api-key", key["api_key"])
        assert 0 == nearfar("chat", "Hello", "--api-key", first["api_key"]).returncode
        listed = json.loads(nearfar("keys", "list", "--json").stdout)["keys"]
    assert (1, "") == (refused.returncode, refused.stdout)
    states = {entry["label"] or entry["key_id"]: entry["status"] for entry in listed}
    assert {"nearfar up": "valid", key["key_id"]: "revoked"} == states
    assert 2 == len(listed), "the printed key is listed once, however often it was started"


def test_a_revoked_printed_key_is_replaced_at_the_next_start(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with detached(nearfar, options):
        (entry,) = json.loads(nearfar("keys", "list", "--json").stdout)["keys"]
        assert 0 == nearfar("keys", "revoke", entry["key_id"]).returncode
    with detached(nearfar, options):
        assert 0 == nearfar("chat", "Hello").returncode


def test_a_restart_begins_without_answers(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    for _ in range(2):
        ran = nearfar("up", *options, "--ask", "Hello there", "--once", "--json")
        _, *answers = map(json.loads, ran.stdout.splitlines())
        assert ["miss", "hit"] == [answer["record"]["cache"] for answer in answers]


def test_an_answer_that_was_cut_says_so_both_times(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    ran = nearfar("up", *options, "--ask", " ".join(["word"] * 120), "--once")
    told = "(cut at 96 tokens; ./nearfar chat --max-tokens asks for more)"
    assert 2 == ran.stderr.count(told), ran.stderr


def ask_and_fail(up: Up) -> None:
    """One request that goes well, and one that fails."""
    assert up.ask("Hello")
    with (
        pytest.raises(openai.AuthenticationError),
        openai.OpenAI(
            base_url=up.line["endpoint"] + "/v1", api_key="wrong", max_retries=0
        ) as client,
    ):
        client.models.list()


def test_ordinary_lines_of_a_part_go_to_its_log_alone(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with nearfar.up(*options) as up:
        ask_and_fail(up)
        wait_for(lambda: "edge | 401 " in up.log.read_text(), "the error was not told")
        assert "edge | 200 " not in up.log.read_text()
        assert "Serving HTTP" not in up.log.read_text()
        assert "Serving HTTP" in (nearfar.run / "edge.log").read_text()


def test_verbose_shows_ordinary_lines_too(nearfar: Nearfar, options: tuple[str, ...]) -> None:
    with nearfar.up(*options, "--verbose") as up:
        ask_and_fail(up)
        wait_for(lambda: "edge | 401 " in up.log.read_text(), "the error was not told")
        assert "edge | 200 " in up.log.read_text()
        assert "Serving HTTP" in up.log.read_text()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--redis", "redis://127.0.0.1:1/0"), "does not answer"),
        (("--upstream-key", "wrong"), "refuses the key"),
    ],
)
def test_what_cannot_work_is_told_before_anything_is_started(
    nearfar: Nearfar, options: tuple[str, ...], words: tuple[str, ...], told: str
) -> None:
    ran = nearfar("up", *options, *words)
    assert ran.returncode in (2, 3)
    assert told in ran.stderr
    assert "starting" not in ran.stderr


def test_a_taken_port_ends_the_start_before_anything_was_started(
    nearfar: Nearfar, upstream: UpstreamThread
) -> None:
    taken = upstream.url.rpartition(":")[2]
    ran = nearfar("up", "--upstream", upstream.url, "--model", "mock", "--port", taken)
    assert 3 == ran.returncode
    assert "is taken" in ran.stderr
    assert "starting" not in ran.stderr


def test_wrong_settings_are_named_all_at_once_and_nothing_starts(
    nearfar: Nearfar, upstream: UpstreamThread, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong = {"NEARFAR_TEMPLATE": "no@1", "NEARFAR_LEASE_MS": "1", "NEARFAR_GATE_LEASE_S": "1"}
    for name, value in wrong.items():
        monkeypatch.setenv(name, value)
    ran = nearfar("up", "--upstream", upstream.url, "--model", "mock", "--gate")
    assert 2 == ran.returncode
    assert not [name for name in wrong if name not in ran.stderr]
    assert not [word for word in ("building", "starting", "Traceback") if word in ran.stderr]


def test_a_gate_counts_what_its_callers_use_and_turns_them_away(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with nearfar.up(*options, "--gate") as up:
        assert {"store", "gate", "edge"} == set(up.parts)
        made = json.loads(
            nearfar("keys", "create", "--tenant", "acme", "--rpm", "2", "--json").stdout
        )
        limited = replace(up, line=up.line | {"api_key": made["api_key"]})
        assert [limited.ask(f"Say {number}", temperature=1) for number in range(2)]
        with pytest.raises(openai.RateLimitError) as caught:
            limited.ask("Say it again", temperature=1)
        assert "rate_limit_exceeded" == caught.value.code
        assert 1 <= int(caught.value.response.headers["retry-after"]) <= 60
        assert "0" == caught.value.response.headers["x-ratelimit-remaining-requests"]
        assert up.ask("Say nothing")

        def used() -> dict[str, Any]:
            rows = json.loads(nearfar("usage", "--json").stdout)["usage"]
            return {row["tenant"]: row for row in rows}

        wait_for(lambda: used().get("local", {}).get("generated", 0) > 0, "nothing was counted")
        assert 2 == used()["acme"]["requests"]
        assert 0 == nearfar("keys", "revoke", made["key_id"]).returncode
        with redis.Redis.from_url(gate_redis(nearfar)) as client:
            assert made["key_id"] in limiter.revoked(client.get("nf:1:revoked"))
        status = json.loads(nearfar("status", "--json").stdout)
        assert status["gate"] is True
        assert "gate_redis" not in status
        os.kill(up.parts["gate"], signal.SIGKILL)
        assert 3 == up.process.wait(20)


def gate_redis(nearfar: Nearfar) -> str:
    found = state.read(Checkout(here().root, nearfar.run))
    assert found is not None
    assert found.gate_redis.endswith("/1")
    return found.gate_redis


def test_a_stack_without_a_gate_counts_nothing_and_says_so(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with nearfar.up(*options) as up:
        assert up.ask("Hello")
        ran = nearfar("usage")
        assert 3 == ran.returncode
        assert "runs without a gate" in ran.stderr


def test_a_gate_of_its_own_is_for_an_upstream_alone(nearfar: Nearfar) -> None:
    ran = nearfar("up", "--gate")
    assert 2 == ran.returncode
    assert "--gate needs --upstream" in ran.stderr


def test_no_secret_is_readable_on_a_command_line(
    nearfar: Nearfar, options: tuple[str, ...]
) -> None:
    with nearfar.up(*options, "--gate") as up:
        kept = json.loads((nearfar.run / "secrets.json").read_text())
        store = (nearfar.run / "store.conf").read_text()
        password = next(line.split()[1] for line in store.splitlines() if "requirepass" in line)
        lines = [Path(f"/proc/{pid}/cmdline").read_text() for pid in up.parts.values()]
    for secret in (kept["key_secret"], kept["gate_secret"], "up-key", password):
        assert all(secret not in line for line in lines)
