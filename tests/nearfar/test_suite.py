"""The test command runs its steps in order and stops at the first that fails."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nearfar import suite
from nearfar.checkout import Checkout, here, python_path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Checkout:
    """A project whose steps are small programs that write down that they ran."""
    for name, code in (("passes", 0), ("fails", 1)):
        (tmp_path / f"{name}.py").write_text(
            f"import sys; open('ran', 'a').write('{name} ' + ' '.join(sys.argv[1:]) + ';')\n"
            f"sys.exit({code})\n"
        )
    steps = {"format": ("passes",), "lint": ("fails",), "tests": ("passes", "-q")}
    monkeypatch.setattr(suite, "STEPS", steps)
    return Checkout(tmp_path, tmp_path / "run")


def test_the_first_failure_ends_the_run(project: Checkout) -> None:
    outcomes = suite.run(project, ["format", "lint", "tests"], [], lambda _: None)
    assert [("format", 0), ("lint", 1)] == [(item.step, item.exit_code) for item in outcomes]


def test_extra_words_go_to_the_tests_alone(project: Checkout) -> None:
    suite.run(project, ["format", "tests"], ["-k", "one"], lambda _: None)
    assert "passes ;passes -q -k one;" == (project.root / "ran").read_text()


def test_what_the_caller_set_for_his_stack_does_not_reach_the_tests(
    project: Checkout, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARFAR_STORE", "hush")
    (project.root / "passes.py").write_text(
        "import os, sys; sys.exit(any(name.startswith('NEARFAR_') for name in os.environ))\n"
    )
    (outcome,) = suite.run(project, ["format"], [], lambda _: None)
    assert 0 == outcome.exit_code


def test_ctrl_c_waits_for_the_step_that_it_reached_too(project: Checkout) -> None:
    """Killed at once, a step would leave behind what it started."""
    (project.root / "passes.py").write_text(
        "import pathlib, time\n"
        "pathlib.Path('began').touch()\n"
        "try:\n    time.sleep(60)\n"
        "except KeyboardInterrupt:\n    time.sleep(0.6); pathlib.Path('cleaned').touch()\n"
    )
    code = (
        "from pathlib import Path\n"
        "from nearfar import suite\n"
        "from nearfar.checkout import Checkout\n"
        "suite.STEPS['format'] = ('passes',)\n"
        "suite.run(Checkout(Path('.'), Path('run')), ['format'], [], print)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        cwd=project.root,
        env=os.environ | {"PYTHONPATH": python_path(here())},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        # A run in the background of a shell may have been told to ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as runner:
        deadline = time.monotonic() + 20
        while not (project.root / "began").exists():
            assert time.monotonic() < deadline
            time.sleep(0.02)
        time.sleep(0.1)
        os.killpg(runner.pid, signal.SIGINT)
        runner.wait(20)
    assert (project.root / "cleaned").exists()


def test_every_step_of_the_real_suite_is_a_module_of_the_environment() -> None:
    from importlib.util import find_spec

    assert {"format", "lint", "types", "tests"} == set(suite.STEPS)
    assert all(find_spec(words[0]) for words in suite.STEPS.values())
