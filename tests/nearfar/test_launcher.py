"""The launcher, run as a shell script in folders that look like a checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from nearfar.checkout import here

LAUNCHER = here().root / "nearfar"
# Stands in for the environment's Python: it writes what it was called with.
ECHO = '#!/bin/sh\nprintf "%s\\n" "$PYTHONPATH" "$@"\n'


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A checkout, in a folder with a space in its name, whose environment is ready."""
    root = tmp_path / "a folder"
    for folder in ("edge-frontend", "operator-cli", "tests", ".nearfar/env/bin"):
        (root / folder).mkdir(parents=True)
    shutil.copy(LAUNCHER, root / "nearfar")
    (root / "edge-frontend/requirements.lock").write_text("edge\n")
    (root / "operator-cli/requirements.lock").write_text("operator\n")
    (root / "tests/requirements.lock").write_text("dev\n")
    environment(root / ".nearfar/env", "edge\noperator\n")
    return root


def environment(env: Path, lock: str) -> None:
    (env / "bin").mkdir(parents=True, exist_ok=True)
    (env / "bin/python").write_text(ECHO)
    (env / "bin/python").chmod(0o755)
    (env / "installed.lock").write_text(lock)


def installer(root: Path, text: str) -> None:
    """Put a program in place of the one that makes environments."""
    folder = root / "operator-cli/nearfar"
    folder.mkdir()
    (folder / "environment.py").write_text(text)


def launch(
    launcher: Path, *argv: str, cwd: Path | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")} | variables
    return subprocess.run(
        [launcher, *argv], cwd=cwd, env=env, capture_output=True, text=True, timeout=60
    )


def test_arguments_reach_the_command_line_as_they_are(checkout: Path) -> None:
    ran = launch(checkout / "nearfar", "chat", "two words", "", "*", "--", "-x")
    assert ["-P", "-m", "nearfar", "chat", "two words", "", "*", "--", "-x"] == (
        ran.stdout.split("\n")[1:-1]
    )


def test_the_packages_are_found_from_any_folder(checkout: Path, tmp_path: Path) -> None:
    expected = ":".join(
        f"{checkout}/{folder}"
        for folder in ("edge-frontend", "gpu-backend", "infra", "operator-cli")
    )
    ran = launch(checkout / "nearfar", cwd=tmp_path, PYTHONPATH="/somewhere/else")
    assert expected == ran.stdout.splitlines()[0]


def test_it_works_through_links(checkout: Path, tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/first").symlink_to("../a folder/nearfar")
    (tmp_path / "second").symlink_to(tmp_path / "bin/first")
    ran = launch(tmp_path / "second", "status")
    assert f"{checkout}/edge-frontend" in ran.stdout


def test_it_works_by_its_name_on_the_path(checkout: Path, tmp_path: Path) -> None:
    ran = subprocess.run(
        ["nearfar", "status"],
        env={"PATH": f"{checkout}:{os.environ['PATH']}"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert f"{checkout}/edge-frontend" in ran.stdout


def test_changed_locks_make_the_environment_anew(checkout: Path) -> None:
    installer(checkout, "import sys; print('installing', *sys.argv[1:], file=sys.stderr)")
    (checkout / "edge-frontend/requirements.lock").write_text("edge 2\n")
    ran = launch(checkout / "nearfar", "status")
    locks = (
        checkout / "edge-frontend/requirements.lock",
        checkout / "operator-cli/requirements.lock",
    )
    assert f"installing {checkout}/.nearfar/env {locks[0]} {locks[1]}\n" == ran.stderr
    assert "status" in ran.stdout


def test_unchanged_locks_start_no_installation(checkout: Path) -> None:
    installer(checkout, "raise SystemExit('must not run')")
    assert "" == launch(checkout / "nearfar", "status").stderr


def test_the_test_command_has_an_environment_of_its_own(checkout: Path) -> None:
    environment(checkout / ".nearfar/env-dev", "dev\n")
    shutil.rmtree(checkout / ".nearfar/env")
    assert "test" in launch(checkout / "nearfar", "test").stdout
    assert "bench-edge" in launch(checkout / "nearfar", "bench-edge").stdout
    assert "status" in launch(checkout / "nearfar", "status", NEARFAR_GROUP="dev").stdout


def test_an_installation_that_fails_ends_the_launch_with_its_code(checkout: Path) -> None:
    installer(checkout, "raise SystemExit(3)")
    (checkout / ".nearfar/env/installed.lock").unlink()
    ran = launch(checkout / "nearfar", "status")
    assert (3, "") == (ran.returncode, ran.stdout)


def test_without_python_one_line_says_what_to_do(checkout: Path, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("sh", "cat", "cmp", "dirname", "readlink"):
        (tools / name).symlink_to(shutil.which(name) or name)
    (checkout / ".nearfar/env/installed.lock").unlink()
    ran = launch(checkout / "nearfar", "status", PATH=str(tools))
    assert 3 == ran.returncode
    assert ["nearfar: Python 3.11 or newer was not found."] == ran.stderr.splitlines()[:1]
    assert "NEARFAR_PYTHON" in ran.stderr


def test_an_old_python_is_passed_over(checkout: Path, tmp_path: Path) -> None:
    old = tmp_path / "python3"
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    installer(checkout, "import sys; print(sys.version_info >= (3, 11), file=sys.stderr)")
    (checkout / ".nearfar/env/installed.lock").unlink()
    folders = f"{tmp_path}:{Path(sys.executable).resolve().parent}:{os.environ['PATH']}"
    assert "True\n" == launch(checkout / "nearfar", "status", PATH=folders).stderr


@pytest.mark.parametrize("script", ["nearfar", ".ci/run"])
def test_shell_scripts_are_free_of_findings(script: str) -> None:
    shellcheck = Path(sys.executable).with_name("shellcheck")
    found = subprocess.run(
        [shellcheck, "--shell=sh", here().root / script],
        capture_output=True,
        text=True,
    )
    assert (0, "") == (found.returncode, found.stdout)
