"""When a snapshot is restored, made, made anew, or done without."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path

import pytest

from nearfar_infra.in_pod import serve_snapshot

FLAGS = ["--model", "acme/small"]


class Engine:
    """A fake of vLLM's snapshot command: it records, and fails as it is told."""

    def __init__(self, *codes: int) -> None:
        self.codes = list(codes)
        self.ran: list[str] = []

    def run(self, command: Sequence[str]) -> int:
        assert ["vllm", "snapshot"] == list(command[:2])
        self.ran.append(command[2])
        if command[2] == "create":
            folder = Path(command[command.index("--snapshot-dir") + 1])
            assert not folder.exists(), "vLLM refuses a folder that is there"
            folder.mkdir()
        return self.codes.pop(0)


def restored(folder: Path, engine: Engine) -> bool:
    return serve_snapshot.restored(folder, 8001, FLAGS, engine.run)


def test_the_first_start_makes_one_and_serves_from_it(tmp_path: Path) -> None:
    engine = Engine(0, 0)
    assert restored(tmp_path / "one", engine)
    assert ["create", "restore"] == engine.ran


def test_later_starts_restore_it(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    engine = Engine(0)
    assert restored(tmp_path / "one", engine)
    assert ["restore"] == engine.ran


def test_one_that_does_not_fit_this_machine_is_made_anew(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    engine = Engine(1, 0, 0)
    assert restored(tmp_path / "one", engine)
    assert ["restore", "create", "restore"] == engine.ran


@pytest.mark.parametrize("codes", [(1,), (0, 1)])
def test_without_a_snapshot_it_starts_as_usual(tmp_path: Path, codes: tuple[int, ...]) -> None:
    assert not restored(tmp_path / "one", Engine(*codes))


def test_the_folder_is_private_before_vllm_looks_at_it(tmp_path: Path) -> None:
    folder = tmp_path / "snapshots"
    folder.mkdir(mode=0o775)
    serve_snapshot.private(folder)
    assert 0o700 == folder.stat().st_mode & 0o777


def test_a_server_that_is_gone_ends_the_process(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(serve_snapshot, "WATCH_EVERY_S", 0.001)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert 1 == serve_snapshot.watch(port)
    assert "does not answer any more" in capsys.readouterr().err
