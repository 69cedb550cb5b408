"""What the fetch Job leaves on the volume, with stand-ins for the hub's client and for pip."""

from __future__ import annotations

import os
import sys
import time
import types
from pathlib import Path

import pytest

from nearfar_infra.in_pod import fetch_model

ORG, OLD, NEW, NEWER = "acme/small", "a" * 40, "b" * 40, "c" * 40
PIP = """\
import pathlib, sys
if "fail" in pathlib.Path(sys.argv[sys.argv.index("-r") + 1]).read_text(): sys.exit(1)
assert "--require-hashes" in sys.argv and "--no-deps" in sys.argv
target = pathlib.Path(sys.argv[sys.argv.index("--target") + 1])
target.mkdir(parents=True)
(target / "redis.py").write_text("")
"""


class Hub:
    """A fake of huggingface_hub: it lays files out as the hub's cache does, and counts."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.asked: list[str] = []
        self.away = False

    def snapshot_download(self, model: str, *, revision: str) -> str:
        self.asked.append(revision)
        if self.away:
            raise OSError("the hub does not answer")
        repository = self.home / "hub" / f"models--{model.replace('/', '--')}"
        folder = repository / "snapshots" / revision
        folder.mkdir(parents=True)
        for name, blob in (("weights", revision[:8]), ("config.json", "same")):
            path = repository / "blobs" / blob
            path.parent.mkdir(exist_ok=True)
            path.write_text(blob)
            (folder / name).symlink_to(Path("../../blobs") / blob)
        return str(folder)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    """The hub's client as the serving image has it, and pip as a small program."""
    made = Hub(tmp_path / "weights")
    module = types.ModuleType("huggingface_hub")
    module.snapshot_download = made.snapshot_download  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "huggingface_hub", module)
    monkeypatch.setenv("HF_HOME", str(made.home))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pip.py").write_text(PIP)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "bin"))
    return made


def fetch(folder: Path, revision: str, libraries: str = "redis==8.1.0 --hash=sha256:0\n") -> int:
    text = folder / "libraries.txt"
    text.write_text(libraries)
    return fetch_model.main(
        [
            *("--libraries", str(text), "--libraries-to", str(folder / "libraries" / "one")),
            *("--folder", str(folder / "weights"), "--folder", str(folder / "cache")),
            *("--model", ORG, "--revision", revision),
        ]
    )


def revisions(folder: Path) -> set[str]:
    return {path.name for path in folder.glob("weights/hub/*/snapshots/*")}


def test_everything_is_there_and_a_second_run_does_nothing(hub: Hub, tmp_path: Path) -> None:
    assert 0 == fetch(tmp_path, OLD)
    assert (tmp_path / "libraries" / "one" / "redis.py").exists()
    assert (tmp_path / "cache").is_dir()
    assert 0 == fetch(tmp_path, OLD)
    assert [OLD] == hub.asked


def test_the_revision_before_stays_while_it_may_still_be_served(hub: Hub, tmp_path: Path) -> None:
    for revision in (OLD, NEW):
        assert 0 == fetch(tmp_path, revision)
        time.sleep(0.01)
    assert {OLD, NEW} == revisions(tmp_path)
    assert 0 == fetch(tmp_path, NEWER)
    assert {NEW, NEWER} == revisions(tmp_path)
    blobs = {path.name for path in tmp_path.glob("weights/hub/*/blobs/*")}
    assert {NEW[:8], NEWER[:8], "same"} == blobs, "what both share stays, what none has goes"


def test_going_back_makes_the_old_one_the_newest(hub: Hub, tmp_path: Path) -> None:
    for revision in (OLD, NEW, OLD, NEWER):
        assert 0 == fetch(tmp_path, revision)
        time.sleep(0.01)
    assert {OLD, NEWER} == revisions(tmp_path)


def test_a_hub_that_is_away_leaves_one_line_and_no_mark(
    hub: Hub, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    hub.away = True
    assert 1 == fetch(tmp_path, OLD)
    told = capsys.readouterr().err.strip().splitlines()[-1]
    assert "not fetched: OSError: the hub does not answer" == told
    hub.away = False
    assert 0 == fetch(tmp_path, OLD)
    assert [OLD, OLD] == hub.asked


def test_a_library_with_a_wrong_hash_stops_it_and_is_tried_again(hub: Hub, tmp_path: Path) -> None:
    assert 1 == fetch(tmp_path, OLD, "fail")
    assert not (tmp_path / "libraries" / "one").exists()
    assert [] == hub.asked
    assert 0 == fetch(tmp_path, OLD)


def test_a_half_made_folder_of_libraries_is_made_anew(hub: Hub, tmp_path: Path) -> None:
    (tmp_path / "libraries" / "one.part").mkdir(parents=True)
    (tmp_path / "libraries" / "one.part" / "rubbish").touch()
    assert 0 == fetch(tmp_path, OLD)
    assert ["redis.py"] == [p.name for p in (tmp_path / "libraries" / "one").glob("*.py")]
    assert not (tmp_path / "libraries" / "one" / "rubbish").exists()


def test_weights_alone_need_no_libraries(hub: Hub, tmp_path: Path) -> None:
    assert 0 == fetch_model.main(["--model", ORG, "--revision", OLD])
    assert {OLD} == revisions(tmp_path)
    assert os.environ["HF_HOME"] == str(hub.home)
