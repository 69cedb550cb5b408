"""nearfar roundtrip against a real process of the core, a stand-in for ssh, and real files."""

from __future__ import annotations

import functools
import http.server
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from fakes.upstream import UpstreamThread
from nearfar import checkout
from nearfar.__main__ import main
from nearfar.errors import BadInput
from nearfar.guard import Guard
from nearfar.placement import vantage
from nearfar.placement.processes import Bench, ended, marks_told
from nearfar.ports import free_port
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, settings

# Does what ssh does with a host and a command, on this machine; and says what it was given.
SSH = """#!/bin/sh
echo "$@" >> "{log}"
for word; do script=$word; done
echo "Welcome to this machine"
exec sh -c "$script"
"""
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    for name in ("ENDPOINT", "API_KEY"):
        monkeypatch.delenv(f"NEARFAR_{name}", raising=False)
    monkeypatch.setenv("NEARFAR_RUN_DIR", str(tmp_path / "run"))

    def call(*argv: str) -> tuple[int, str, str]:
        code = main(["roundtrip", "--interval", "0", *argv])
        return code, *capsys.readouterr()

    return call


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The address of a running path, and of the model server behind it."""
    folder = Path(tmp_path_factory.mktemp("roundtrip"))
    with ExitStack() as exits:
        upstream = exits.enter_context(UpstreamThread(api_key=UPSTREAM_KEY))
        guard = Guard()
        exits.callback(guard.close)
        bench = Bench(checkout.here(), folder, guard)
        bench.settings = settings({"mock": upstream.url}, "none")
        child, address = bench.plain()
        exits.enter_context(ended(child))
        marks_told(child, "listening")
        yield f"http://127.0.0.1:{address.port}", upstream.url


@pytest.fixture
def at(stack: tuple[str, str]) -> tuple[str, ...]:
    return ("--endpoint", stack[0], "--api-key", Caller().key, "--repeats", "3")


def test_it_prints_the_two_distances_and_what_placements_cost(
    run: Run, at: tuple[str, ...], stack: tuple[str, str]
) -> None:
    code, out, _ = run(*at, "--gpu", stack[1], "--container", stack[0])
    assert 0 == code
    lines = out.splitlines()
    assert lines[2].startswith("user to edge, one round trip")
    assert lines[3].startswith("edge to gpu-mock, one round trip")
    assert "not available" not in lines[2] + lines[3]
    assert "small questions, sums of medians" in out
    (cached,) = [line for line in lines if line.startswith("cached answer, new connection")]
    assert 3 == cached.count(" ms")


def test_json_has_every_trip(run: Run, at: tuple[str, ...], stack: tuple[str, str]) -> None:
    code, out, _ = run(*at, "--json", "--gpu", stack[1])
    document = json.loads(out)
    assert (0, "nearfar.roundtrip/1") == (code, document["schema"])
    (seen,) = document["vantages"]
    assert ["new", "reused"] * 3 == [trip["connection"] for trip in seen["edge"]["trips"]]
    assert [200] * 6 == [trip["status"] for trip in seen["edge"]["trips"]]
    assert {401} == {trip["status"] for trip in seen["gpu"]["trips"]}
    exchanges = seen["edge_probe"]["upstreams"]["gpu-mock"]["exchanges"]
    assert [True, False, False] == [each["first"] for each in exchanges]


def test_more_repeats_than_one_probe_may_have_are_several_probes(
    run: Run, stack: tuple[str, str]
) -> None:
    _, out, _ = run("--endpoint", stack[0], "--api-key", Caller().key, "--repeats", "23", "--json")
    (seen,) = json.loads(out)["vantages"]
    assert 23 == len(seen["edge_probe"]["upstreams"]["gpu-mock"]["connect_ms"])


@pytest.mark.parametrize(
    ("key", "why"),
    [
        ("", "no API key was given"),
        ("nf_wrong", "the edge refused a probe: The API key is not valid"),
        (None, "the edge refused a probe: This key does not have the permission `trace`"),
    ],
)
def test_without_the_right_key_the_edges_own_ways_say_so_and_the_rest_is_there(
    run: Run, stack: tuple[str, str], key: str | None, why: str
) -> None:
    given = Caller(permissions=("chat",)).key if key is None else key
    code, out, _ = run("--endpoint", stack[0], "--api-key", given, "--repeats", "1")
    assert 0 == code
    assert f"not available: {why}" in out
    assert "model's answer, reused connection not available" in out


def test_an_upstream_that_the_edge_has_not_is_told(run: Run, at: tuple[str, ...]) -> None:
    _, out, _ = run(*at, "--upstream", "nobody")
    assert "the edge refused a probe: There is no such upstream" in out


@pytest.mark.parametrize("option", ["--endpoint", "--gpu", "--container"])
def test_a_dead_address_is_one_line_and_code_3_and_what_was_measured_before_is_shown(
    run: Run, at: tuple[str, ...], option: str
) -> None:
    code, out, err = run(*at, option, f"http://127.0.0.1:{free_port()}")
    assert 3 == code
    assert 1 == len([line for line in err.splitlines() if "Nothing answers at" in line])
    if option == "--endpoint":
        assert "" == out
    else:
        assert "user to edge, one round trip" in out
        assert "not available: Nothing answers at" in out


@pytest.mark.parametrize(
    "words",
    [
        ("--endpoint", "edge.example"),
        ("--from", "tokyo"),
        ("--from", "=x"),
        ("--from", "tokyo=/no/such/file"),
        ("--from", "tokyo=ssh://"),
        ("--from", "tokyo=ssh://-oProxyCommand=true"),
        ("--from", "tokyo=ssh://host/path"),
        ("--repeats", "0"),
    ],
)
def test_a_wrong_command_line_is_told_with_code_2(
    run: Run, at: tuple[str, ...], words: tuple[str, ...]
) -> None:
    code, _, err = run(*at, *words)
    assert 2 == code
    assert "Traceback" not in err


def test_without_a_stack_it_says_what_to_do(run: Run) -> None:
    code, _, err = run()
    assert 3 == code
    assert "./nearfar up" in err


def test_what_another_place_saw_is_read_from_its_file(
    run: Run, at: tuple[str, ...], tmp_path: Path
) -> None:
    _, out, _ = run(*at, "--json")
    path = tmp_path / "tokyo.json"
    path.write_text(out)
    code, out, _ = run(*at, "--from", f"tokyo={path}")
    assert 0 == code
    assert ["from here", "from tokyo"] == [
        line for line in out.splitlines() if line.startswith("from ") and "edge" not in line
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"schema": "nearfar.roundtrip/1"}', "x"])
def test_a_file_of_another_form_is_told(
    run: Run, at: tuple[str, ...], tmp_path: Path, text: str
) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    code, _, err = run(*at, "--from", f"tokyo={path}")
    assert 2 == code
    assert "holds no result of nearfar roundtrip" in err


def test_a_document_that_was_cut_anywhere_is_told(run: Run, at: tuple[str, ...]) -> None:
    _, out, _ = run(*at, "--json", "--repeats", "1")
    for end in range(0, len(out.rstrip()) - 1, 211):
        with pytest.raises(BadInput, match="holds no result"):
            vantage.of_document(vantage.last_json(out[:end], "x"), "x", "x")


@pytest.fixture
def ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for ssh on PATH; what it was given is in the file that is returned."""
    log, folder = tmp_path / "ssh.log", tmp_path / "bin"
    folder.mkdir()
    (folder / "ssh").write_text(SSH.format(log=log))
    (folder / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", checkout.python_path(checkout.here()))
    return log


def test_another_machine_is_asked_over_ssh_and_no_key_stands_on_a_command_line(
    run: Run, stack: tuple[str, str], ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both machines are this one, which is refused for an address of its own loopback.
    monkeypatch.setattr(
        "nearfar.placement.address.Address.is_of_this_machine", property(lambda _: False)
    )
    key = Caller().key
    code, out, err = run(
        "--endpoint", stack[0], "--api-key", key, "--repeats", "2", "--json",
        "--from", "tokyo=ssh://me@far.test:2222",
        "--remote-command", f"{sys.executable} -P -m nearfar",
    )  # fmt: skip
    assert 0 == code, err
    seen = {each["name"]: each for each in json.loads(out)["vantages"]}
    assert {"here", "tokyo"} == set(seen)
    assert 4 == len(seen["tokyo"]["edge"]["trips"])
    assert 2 == len(seen["tokyo"]["edge_probe"]["upstreams"]["gpu-mock"]["exchanges"])
    given = ssh.read_text()
    assert "-p 2222 -l me far.test" in given
    assert key not in given


def test_a_machine_where_nearfar_is_not_is_told(
    run: Run, stack: tuple[str, str], ssh: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "nearfar.placement.address.Address.is_of_this_machine", property(lambda _: False)
    )
    code, _, err = run(
        "--endpoint", stack[0], "--repeats", "1",
        "--from", "tokyo=ssh://far.test", "--remote-command", "no-such-program",
    )  # fmt: skip
    assert 3 == code
    assert "Measuring from tokyo (ssh://far.test) failed" in err
    assert "--remote-command" in err


def test_an_address_that_only_this_machine_has_is_not_sent_elsewhere(
    run: Run, at: tuple[str, ...], ssh: Path
) -> None:
    code, _, err = run(*at, "--from", "tokyo=ssh://far.test")
    assert 2 == code
    assert "this machine's own name for itself" in err
    assert not ssh.exists()


def test_an_interrupt_keeps_what_was_measured(stack: tuple[str, str], tmp_path: Path) -> None:
    argv = [sys.executable, "-P", "-m", "nearfar", "roundtrip", "--endpoint", stack[0]]
    argv += ["--repeats", "1000", "--interval", "0.05", "--json"]
    env = os.environ | {"PYTHONPATH": checkout.python_path(checkout.here())}
    with subprocess.Popen(
        argv, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as asked:
        assert asked.stderr is not None
        asked.stderr.readline()
        time.sleep(1.5)
        asked.send_signal(signal.SIGINT)
        out, err = asked.communicate(timeout=20)
    assert 130 == asked.returncode, err
    assert "what was measured is kept" in err
    document: Any = json.loads(out)
    assert 0 < len(document["vantages"][0]["edge"]["trips"]) < 2000


def test_what_another_place_saw_is_fetched_from_an_address(
    run: Run, at: tuple[str, ...], tmp_path: Path
) -> None:
    _, out, _ = run(*at, "--json")
    (tmp_path / "tokyo.json").write_text(out)
    handler = functools.partial(_Quiet, directory=str(tmp_path))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        code, out, _ = run(*at, "--from", f"tokyo={url}/tokyo.json")
        assert 0 == code
        assert "from tokyo" in out.splitlines()
        code, _, err = run(*at, "--from", f"tokyo={url}/absent.json")
        assert (1, True) == (code, "answered 404" in err)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert 3 == run(*at, "--from", f"tokyo={url}/tokyo.json")[0]


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None:
        """Say nothing."""
