"""The two ways to run the program: by the Pulumi CLI's main file, and by an inline program."""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from pathlib import Path

import pulumi
import pytest

from infra import given
from infra.declared import declare
from nearfar_infra import failure, run
from nearfar_infra.errors import EngineError
from nearfar_infra.project import INFRA

MAIN = INFRA / "__main__.py"


@pytest.fixture
def configured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A stack's configuration as the CLI hands it to the program."""
    pins = tmp_path / "pins.toml"
    pins.write_text(
        "\n".join(f'"{name}" = "{value}"' for name, value in given.sources().pins.items())
    )
    monkeypatch.setenv("LINODE_TOKEN", "t")
    monkeypatch.setattr(sys, "path", [*sys.path])
    return {f"nearfar:{k}": v for k, v in {**given.SMALLEST, "pins": str(pins)}.items()}


def main() -> None:
    """Run the file as the CLI does."""
    runpy.run_path(str(MAIN), run_name="__main__")


def test_the_cli_s_main_file_declares_the_whole_deployment(
    configured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps(configured))
    made = declare(main)
    assert 1 == len(made.typed(":LkeCluster"))
    assert 1 == len(made.typed("index:FirstAnswer"))


def test_the_cli_s_main_file_fails_in_one_line_before_any_resource(
    configured: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULUMI_CONFIG", json.dumps({**configured, "nearfar:region": "us-east"}))
    with pytest.raises(pulumi.RunError, match="region has no g2-gpu-rtx4000a1-m") as refused:
        declare(main)
    assert 1 == len(str(refused.value).splitlines())


def test_without_pulumi_a_preview_is_two_lines_and_code_3(tmp_path: Path) -> None:
    env = {"PATH": str(tmp_path), "PYTHONPATH": os.pathsep.join(sys.path), "HOME": str(tmp_path)}
    argv = [sys.executable, "-m", "nearfar_infra", "preview", "--stack", "dev"]
    ran = subprocess.run(argv, env=env, capture_output=True, text=True, timeout=60)
    assert (3, "") == (ran.returncode, ran.stdout)
    first, second = ran.stderr.splitlines()
    assert "'pulumi' was not found" in first
    assert second.startswith("Next step: install the Pulumi CLI")


@pytest.mark.parametrize("name", ["PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN"])
def test_a_backend_that_the_operator_chose_is_left_alone(tmp_path: Path, name: str) -> None:
    found = run.variables({name: "x", "PATH": "/bin"}, tmp_path / "infra")
    assert {"PATH"} == set(found)
    assert found["PATH"].startswith(str(tmp_path / "infra/plugin"))


def test_a_login_of_the_cli_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "credentials.json").touch()
    assert {"PATH"} == set(run.variables({"PULUMI_HOME": str(tmp_path)}, tmp_path / "infra"))


def test_otherwise_the_state_lies_in_the_checkout_for_its_owner_alone(tmp_path: Path) -> None:
    given_too = {"PULUMI_HOME": str(tmp_path), "PULUMI_CONFIG_PASSPHRASE": "p"}
    found = run.variables(given_too, tmp_path / "infra")
    state = tmp_path / ".nearfar/state"
    assert state.as_uri() == found["PULUMI_BACKEND_URL"]
    assert 0o700 == state.stat().st_mode & 0o777


def test_a_state_without_a_passphrase_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match="no passphrase"):
        run.variables({"PULUMI_HOME": str(tmp_path)}, tmp_path / "infra")


PULL = "[Pod nearfar-serving/fetch-9306]: [ImagePullBackOff] Back-off pulling image: not found"
DEADLINE = "[DeadlineExceeded] Job was active longer than specified deadline"
# As the real engine said it when an image was not there (names shortened).
IMAGE_GONE = """
Diagnostics:
  kubernetes:batch/v1:Job (engine-files-fetch):
    error: 3 errors occurred:
    \t* resource "urn:pulumi:t::n::k:batch/v1:Job::e" was successfully created, but the Kubernetes \
API server reported that it failed to fully initialize or become live: Resource 'x' was created
    \t* [Pod nearfar-serving/fetch-9306]: [ImagePullBackOff] Back-off pulling image: not found
    \t* [DeadlineExceeded] Job was active longer than specified deadline

  pulumi:pulumi:Stack (nearfar-test):
    warning: using pulumi-resource-linode from $PATH
    error: update failed
    error: Resource monitor has terminated, shutting down
"""
PROGRAM = """
  pulumi:pulumi:Stack (nearfar-dev):
    error: The configuration is not valid: region has no plan. Next step: correct it.
    error: an unhandled error occurred: Program exited with non-zero exit code: 1
"""


@pytest.mark.parametrize(
    ("said", "line"),
    [
        (
            IMAGE_GONE,
            f"engine-files-fetch: {PULL}; {DEADLINE}.",
        ),
        (PROGRAM, "The configuration is not valid: region has no plan. Next step: correct it."),
        ("", "Pulumi failed."),
        ("    error: update failed", "Pulumi failed."),
    ],
)
def test_a_failed_run_is_told_in_one_line_of_the_engine_s_own_words(said: str, line: str) -> None:
    assert line == failure.told(said)
