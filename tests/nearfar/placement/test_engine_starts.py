"""Starts of a stand-in for vLLM, and first tokens of a fake: the real one is a recipe's matter."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from fakes.script import Script
from fakes.upstream import UpstreamThread
from gpu_backend import server
from gpu_backend.probe import Target
from gpu_backend.server import Server
from nearfar.errors import NearfarError, PartDied
from nearfar.placement import engine_starts
from nearfar.ports import free_port

FAKE = Path(__file__).parents[2] / "gpu_backend" / "fake_server.py"


def starter(mode: str, folder: Path) -> engine_starts.Starter:
    """Start the stand-in, which writes some of vLLM's lines 0.3 s apart."""
    port = free_port()

    def start(log: Path) -> Server:
        return server.launch(
            [sys.executable, str(FAKE), str(port), mode],
            target=Target("127.0.0.1", port, "small"),
            environment={},
            log=log,
            ready_timeout_s=20,
        )

    return start


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_start_is_followed_in_its_log_up_to_the_first_answer(folder: Path) -> None:
    start, running = engine_starts.cold(starter("good", folder), folder / "x.log", 4)
    with running:
        assert ("engine", "cold", 4) == (start.subject, start.condition, start.number)
    ms = {step.name: step.ms for step in start.steps}
    assert None is ms["process and imports"] is ms["KV cache"] is ms["HTTP server"]
    for name in ("engine process and its imports", "worker process", "first token"):
        assert (ms[name] or 0) > 0, name
    assert start.total_ms >= 900
    assert "its own words: weights 0.5 s" in start.note
    outside = [step for step in start.steps if step.name in ("machine", "fetch of weights")]
    assert [None, None] == [step.ms for step in outside]


def test_a_server_that_dies_is_told(folder: Path) -> None:
    with pytest.raises(PartDied, match="no such model"):
        engine_starts.cold(starter("dies", folder), folder / "x.log", 0)


@dataclass
class Running:
    """What is asked of a server that runs."""

    target: Target
    log: Path


@pytest.fixture
def upstream() -> Iterator[UpstreamThread]:
    with UpstreamThread(Script(first_content_ms=120, role_ms=10), api_key="k") as found:
        yield found


def running(upstream: UpstreamThread, key: str, folder: Path) -> Running:
    return Running(Target("127.0.0.1", upstream.fake.port, "mock", key), folder / "x.log")


def test_the_first_token_is_the_first_text_and_not_the_role(
    upstream: UpstreamThread, folder: Path
) -> None:
    start = engine_starts.warm(running(upstream, "k", folder), 2)  # type: ignore[arg-type]
    assert ["connect", "head of the answer", "first token"] == [s.name for s in start.steps]
    assert 120 <= start.total_ms
    assert ("warm", 2) == (start.condition, start.number)


def test_a_server_that_refuses_is_told(upstream: UpstreamThread, folder: Path) -> None:
    with pytest.raises(NearfarError, match="answered 401"):
        engine_starts.warm(running(upstream, "other", folder), 0)  # type: ignore[arg-type]


def test_an_answer_without_text_is_no_first_token(folder: Path) -> None:
    with (
        UpstreamThread(Script(pieces=()), api_key="k") as empty,
        pytest.raises(NearfarError, match="had no text"),
    ):
        engine_starts.warm(running(empty, "k", folder), 0)  # type: ignore[arg-type]
