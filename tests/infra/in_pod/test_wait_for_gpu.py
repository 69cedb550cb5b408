"""The check that nodes advertise their GPUs."""

from __future__ import annotations

from typing import Any

import pytest

from nearfar_infra.in_pod import wait_for_gpu

GPU = "nvidia.com/gpu"


def node(name: str, gpus: int | None) -> dict[str, Any]:
    allocatable = {"cpu": "8"} if gpus is None else {"cpu": "8", GPU: str(gpus)}
    return {"metadata": {"name": name}, "status": {"allocatable": allocatable}}


class Cluster:
    """A fake of the API server: it answers with one list after the other, the last one for ever."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.slept_s = 0.0

    def ask(self) -> list[Any]:
        answer = self.answers[0] if len(self.answers) == 1 else self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return list(answer)

    def sleep(self, seconds: float) -> None:
        self.slept_s += seconds


def wait(cluster: Cluster, needed: int = 1, within_s: float = 60) -> int:
    return wait_for_gpu.wait(cluster.ask, GPU, needed, within_s, sleep=cluster.sleep)


def test_it_ends_once_a_node_advertises_its_gpu(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster([], [node("gpu-1", None)], [node("gpu-1", 0)], [node("gpu-1", 1)])
    assert 0 == wait(cluster)
    assert 15 == cluster.slept_s
    told = capsys.readouterr().out.splitlines()
    assert "waiting for nvidia.com/gpu: no such node" == told[0]
    assert "nvidia.com/gpu is advertised: gpu-1: 1" == told[-1]


def test_it_gives_up_with_a_line_that_names_every_node(capsys: pytest.CaptureFixture[str]) -> None:
    cluster = Cluster([node("gpu-1", 0), node("gpu-2", None)])
    assert 1 == wait(cluster)
    last = capsys.readouterr().out.splitlines()[-1]
    assert "nvidia.com/gpu is not advertised on 1 node(s) after 60 s: gpu-1: 0, gpu-2: 0" == last


def test_it_waits_for_as_many_nodes_as_it_is_told() -> None:
    assert 1 == wait(Cluster([node("gpu-1", 4)]), needed=2)
    assert 0 == wait(Cluster([node("gpu-1", 1), node("gpu-2", 1)]), needed=2)


def test_an_api_server_that_is_away_for_a_moment_is_asked_again() -> None:
    cluster = Cluster(OSError("refused"), [node("gpu-1", 1)])
    assert 0 == wait(cluster)


def test_the_same_news_is_told_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert 1 == wait(Cluster([]), within_s=600)
    assert 2 == len(capsys.readouterr().out.splitlines())
