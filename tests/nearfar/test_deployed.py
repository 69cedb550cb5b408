"""`--stack`: the edge of a deployed stack, by the Pulumi CLI or by the state's file."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import sample
from fakes.http_edge import HttpEdge, serving
from nearfar import deployed
from nearfar.checkout import here

Run = Callable[..., Any]


@pytest.fixture
def edge() -> Iterator[HttpEdge]:
    with serving(HttpEdge(stream=sample.stream(record=sample.miss()))) as fake:
        yield fake


def outputs(edge: HttpEdge) -> dict[str, Any]:
    return {
        "chatUrl": edge.endpoint,
        "model": "mock",
        "firstApiKey": edge.key("chat", "trace"),
        "keySecret": edge.secret,
        "clusterId": "7",
    }


@pytest.fixture
def pulumi(tmp_path: Path, edge: HttpEdge, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A stand-in for the Pulumi CLI that knows one stack; its arguments are in calls.txt."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "outputs.json").write_text(json.dumps(outputs(edge)))
    (folder / "config.json").write_text(
        json.dumps(
            {
                "nearfar:apiAllowed": {"value": '["192.0.2.1/32"]', "secret": False},
                "nearfar:acmeEmail": {"value": "a@b.example", "secret": False},
                "nearfar:gpuPlan": {"value": "g2-gpu-rtx4000a1-l", "secret": False},
                "nearfar:hfToken": {"secret": True},
                "linode:token": {"secret": True},
            }
        )
    )
    program = folder / "pulumi"
    program.write_text(
        f"""#!/bin/sh
echo "$@" >> {folder}/calls.txt
case "$*" in
    *"--stack gone"*) echo "error: no stack named 'gone' found" >&2; exit 255 ;;
    *"--stack locked"*) echo "error: incorrect passphrase" >&2; exit 255 ;;
    "stack output"*) cat {folder}/outputs.json ;;
    "config"*) cat {folder}/config.json ;;
    *) exit 2 ;;
esac
"""
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
    return folder


def test_chat_asks_the_stacks_edge_with_its_key_and_model(
    run: Run, edge: HttpEdge, pulumi: Path
) -> None:
    ran = run("chat", "Hello", "--stack", "dev")
    assert (0, "Hello you\n") == (ran.code, ran.out)
    assert ["mock"] == [body["model"] for _, body in edge.asked]
    assert "--stack dev" in (pulumi / "calls.txt").read_text()


def test_a_dot_is_the_selected_stack(run: Run, pulumi: Path) -> None:
    assert 0 == run("trace", "Hello", "--stack", ".").code
    assert "--stack" not in (pulumi / "calls.txt").read_text()


def test_keys_are_made_with_the_stacks_secret(run: Run, edge: HttpEdge, pulumi: Path) -> None:
    document = run("keys", "create", "--tenant", "acme", "--stack", "dev", "--json").document
    assert [document["key_id"]] == list(edge.registered)
    assert 0 == run("keys", "list", "--stack", "dev").code
    assert 0 == run("keys", "revoke", document["key_id"], "--stack", "dev").code
    assert document["key_id"] in edge.revoked


def test_the_secret_of_a_deployed_stack_is_rotated_by_its_configuration(
    run: Run, pulumi: Path
) -> None:
    ran = run("keys", "rotate", "--secret", "--stack", "dev")
    assert 2 == ran.code
    assert "keyGeneration" in ran.err


def test_the_variable_names_the_stack_too(
    run: Run, edge: HttpEdge, pulumi: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NEARFAR_STACK", "dev")
    assert 0 == run("chat", "Hello").code


def test_a_stack_and_an_endpoint_are_one_too_many(run: Run, edge: HttpEdge, pulumi: Path) -> None:
    assert 2 == run("chat", "Hello", "--stack", "dev", "--endpoint", edge.endpoint).code


@pytest.mark.parametrize(
    ("stack", "code", "told"),
    [("gone", 3, "no stack named 'gone'"), ("locked", 2, "PULUMI_CONFIG_PASSPHRASE")],
)
def test_a_stack_that_cannot_be_read_is_two_lines(
    run: Run, pulumi: Path, stack: str, code: int, told: str
) -> None:
    ran = run("chat", "Hello", "--stack", stack)
    assert code == ran.code
    assert told in ran.err
    assert 2 == len(ran.err.splitlines())


def test_a_stack_without_an_edge_is_told(run: Run, pulumi: Path) -> None:
    (pulumi / "outputs.json").write_text("{}")
    assert 3 == run("chat", "Hello", "--stack", "dev").code


def test_the_stacks_settings_count_and_its_secrets_are_not_decrypted(
    run: Run, pulumi: Path
) -> None:
    names = [part["name"] for part in run("cost", "--stack", "dev", "--json").document["parts"]]
    assert "GPU nodes, g2-gpu-rtx4000a1-l" in names
    assert "--show-secrets" not in (pulumi / "calls.txt").read_text()
    assert {"hfToken": None} == {
        key: value for key, value in deployed.configuration(here(), "dev").items() if value is None
    }


def test_without_pulumi_the_states_file_tells_what_is_no_secret(
    run: Run, edge: HttpEdge, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    at = tmp_path / "state" / ".pulumi" / "stacks" / "nearfar"
    at.mkdir(parents=True)
    told = {**outputs(edge), "firstApiKey": {"4dabf18193072939515e22adb298388d": "x"}}
    resources = [{"type": "pulumi:pulumi:Stack", "outputs": told}]
    state = {"checkpoint": {"latest": {"resources": resources}}}
    (at / "dev.json").write_text(json.dumps(state))
    monkeypatch.setenv("PULUMI_BACKEND_URL", (tmp_path / "state").as_uri())
    monkeypatch.setenv("PATH", str(tmp_path))
    assert 2 == run("chat", "Hello", "--stack", "dev").code
    assert 0 == run("chat", "Hello", "--stack", "dev", "--api-key", edge.key("chat")).code
    assert 3 == run("chat", "Hello", "--stack", "other").code
