"""The command lines that serve the edge."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from nearfar import edge, program
from nearfar.checkout import Checkout, here
from nearfar.commands import up
from nearfar.edge import COMPILE_FLAGS, ServeOptions

SETTINGS = {"NEARFAR_KEY_SECRET": "hush", "NEARFAR_STORE": "redis://:hush@127.0.0.1:1/0"}


def argv(options: ServeOptions) -> list[str]:
    return edge.wasmtime_argv(Path("edge.cwasm"), options, SETTINGS)


def test_no_setting_stands_on_the_command_line() -> None:
    assert "hush" not in " ".join(argv(ServeOptions(3000)))


def test_every_setting_is_passed_on_by_name_and_lies_in_the_environment() -> None:
    line = " ".join(argv(ServeOptions(3000)))
    env = edge.host_environment("wasmtime", SETTINGS)
    for name, value in SETTINGS.items():
        assert f"--env {name} " in line
        assert value == env[name]


def test_the_edge_listens_on_the_loopback_address_alone() -> None:
    assert "--addr 127.0.0.1:3000 " in " ".join(argv(ServeOptions(3000)))


def test_a_component_is_served_with_the_flags_it_was_compiled_with() -> None:
    assert " ".join(COMPILE_FLAGS) in " ".join(argv(ServeOptions(3000)))


@pytest.mark.parametrize(
    ("words", "reuse", "concurrent"),
    [
        ((), 4096, 32),  # docs/performance.md
        (("--max-instance-reuse-count", "1"), 1, 32),
        (("--max-instance-concurrent-reuse-count", "4"), 4096, 4),
    ],
)
def test_instances_are_few_and_live_long_unless_up_is_told_otherwise(
    words: tuple[str, ...], reuse: int, concurrent: int
) -> None:
    given = up.command.make_context("up", list(words)).params
    line = " ".join(argv(up.serve_options(given)))
    assert f"--max-instance-reuse-count {reuse} " in line
    assert f"--max-instance-concurrent-reuse-count {concurrent} " in line


def test_instance_limits_of_none_are_left_to_the_host() -> None:
    assert "reuse" not in " ".join(argv(ServeOptions(3000, None, None)))


def test_an_instance_outlives_the_pauses_between_one_persons_questions() -> None:
    assert "--idle-instance-timeout 30s " in " ".join(argv(ServeOptions(3000)))


def test_the_hosts_process_does_not_inherit_the_callers_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hush")
    assert "SOME_TOKEN" not in edge.host_environment("wasmtime", SETTINGS)


ROUTES = {"version": "1", "upstreams": {"gpu": {"url": "http://127.0.0.1:8000/v1"}}, "models": {}}
SPIN_SETTINGS = SETTINGS | {"NEARFAR_ROUTES": json.dumps(ROUTES)}


def test_spin_gets_settings_as_variables_that_its_manifest_declares() -> None:
    manifest = tomllib.loads((here().edge / "spin.toml").read_text())
    given = edge.host_environment("spin", SPIN_SETTINGS)
    assert "hush" == given["SPIN_VARIABLE_KEY_SECRET"]
    names = {name for name in given if name.startswith("SPIN_VARIABLE_")}
    declared = {f"SPIN_VARIABLE_{name.upper()}" for name in manifest["variables"]}
    assert names <= declared


def test_spin_may_reach_the_upstream_and_the_store_alone() -> None:
    given = edge.spin_variables(SPIN_SETTINGS)
    assert "http://127.0.0.1:8000" == given["SPIN_VARIABLE_UPSTREAM_HOST"]
    assert "redis://127.0.0.1:1" == given["SPIN_VARIABLE_STORE_HOST"]


def test_spin_serves_the_component_where_it_was_built(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "find", Path)
    built = tmp_path / "built.wasm"
    argv = edge.spin_argv(Checkout(here().root, tmp_path), built, ServeOptions(3000))
    assert "--listen 127.0.0.1:3000" in " ".join(argv)
    manifest = tomllib.loads((tmp_path / "spin.toml").read_text())
    assert str(built) == manifest["component"]["edge"]["source"]
