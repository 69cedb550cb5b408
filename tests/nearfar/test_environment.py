"""How the private environment is made, with a small program in uv's place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from nearfar import environment

# Makes an "environment" whose Python is this one, and writes down what it was asked for.
FAKE_UV = f"""#!/bin/sh
echo "$@" >> "$UV_LOG"
[ "$UV_PYTHON_DOWNLOADS" = never ] || exit 9
case $1 in
    venv)
        for env in "$@"; do :; done
        mkdir -p "$env/bin"
        ln -sf {sys.executable} "$env/bin/python"
        ;;
    pip)
        sleep 0.3
        [ ! -e "$UV_FAIL" ] || {{ echo "no such package" >&2; exit 1; }}
        ;;
esac
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "uv").write_text(FAKE_UV)
    (tools / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:{os.environ['PATH']}")
    monkeypatch.setenv("UV_LOG", str(tmp_path / "log"))
    monkeypatch.setenv("UV_FAIL", str(tmp_path / "fail"))
    (tmp_path / "operator-cli").mkdir()
    (tmp_path / "operator-cli/requirements.lock").write_text("one\n")
    return tmp_path


def arguments(project: Path) -> list[str]:
    return [str(project / ".nearfar/env"), str(project / "operator-cli/requirements.lock")]


def calls(project: Path) -> list[str]:
    log = project / "log"
    return [line.split()[0] for line in log.read_text().splitlines()] if log.exists() else []


def test_an_environment_is_made_once(project: Path) -> None:
    assert 0 == environment.main(arguments(project))
    assert 0 == environment.main(arguments(project))
    assert ["venv", "pip"] == calls(project)


def test_packages_are_installed_with_their_hashes_alone(project: Path) -> None:
    environment.main(arguments(project))
    assert "pip sync --require-hashes" in (project / "log").read_text()


def test_changed_locks_change_the_same_environment(project: Path) -> None:
    environment.main(arguments(project))
    (project / "operator-cli/requirements.lock").write_text("two\n")
    environment.main(arguments(project))
    assert ["venv", "pip", "pip"] == calls(project)
    assert "two\n" == (project / ".nearfar/env/installed.lock").read_text()


def test_an_environment_whose_python_is_gone_is_made_anew(project: Path) -> None:
    environment.main(arguments(project))
    python = project / ".nearfar/env/bin/python"
    python.unlink()
    python.symlink_to("/does/not/exist")
    environment.main(arguments(project))
    assert ["venv", "pip", "venv", "pip"] == calls(project)


def test_an_installation_that_failed_is_done_again(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / "fail").touch()
    assert 3 == environment.main(arguments(project))
    told = capfd.readouterr().err
    assert "nearfar: 'uv pip' failed" in told
    assert "Next step: " in told
    (project / "fail").unlink()
    assert 0 == environment.main(arguments(project))


def test_of_two_launches_at_once_one_installs_and_both_go_on(project: Path) -> None:
    argv = [sys.executable, environment.__file__, *arguments(project)]
    both = [subprocess.Popen(argv, stderr=subprocess.DEVNULL) for _ in range(2)]
    assert [0, 0] == [process.wait(30) for process in both]
    assert ["venv", "pip"] == calls(project)


def test_a_killed_installation_holds_up_nobody(project: Path) -> None:
    argv = [sys.executable, environment.__file__, *arguments(project)]
    killed = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    while "pip" not in calls(project):
        assert killed.poll() is None
    killed.kill()
    killed.wait()
    assert 0 == environment.main(arguments(project))


def test_a_folder_that_cannot_be_written_is_told(
    project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (project / ".nearfar").write_text("a file in the folder's place")
    assert 3 == environment.main(arguments(project))
    assert "Next step: make" in capfd.readouterr().err


def test_without_uv_on_the_path_pip_installs_it_with_its_hashes(
    project: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Here no index is asked, so pip fails; that it was asked is what is shown."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    for name, value in (("PIP_NO_INDEX", "1"), ("PIP_FIND_LINKS", "")):
        monkeypatch.setenv(name, value)
    (project / "operator-cli/installer.lock").write_text(f"uv==0.0.1 --hash=sha256:{'0' * 64}\n")
    assert 3 == environment.main(arguments(project))
    told = capfd.readouterr().err
    assert "putting the installer (uv) into .nearfar/uv" in told
    assert "uv==0.0.1" in told
    assert not (project / ".nearfar/env/installed.lock").exists()


def test_only_the_standard_library_is_imported() -> None:
    """It runs before anything is installed."""
    code = "import runpy, sys; runpy.run_path(sys.argv[1]); print(*sys.modules)"
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, environment.__file__],
        capture_output=True,
        text=True,
        check=True,
    )
    names = {name.partition(".")[0] for name in ran.stdout.split()}
    foreign = names - set(sys.stdlib_module_names) - {"__main__", "__mp_main__"}
    assert set() == {name for name in foreign if not name.startswith("_")}
