"""The command lines that serve the edge."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfar import edge
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


def test_instance_limits_are_left_to_the_host_unless_given() -> None:
    assert "reuse" not in " ".join(argv(ServeOptions(3000)))
    line = " ".join(argv(ServeOptions(3000, 1, 4)))
    assert "--max-instance-reuse-count 1 --max-instance-concurrent-reuse-count 4" in line


def test_the_hosts_process_does_not_inherit_the_callers_variables(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("SOME_TOKEN", "hush")
    assert "SOME_TOKEN" not in edge.host_environment("wasmtime", SETTINGS)


def test_spin_gets_settings_as_its_own_variables() -> None:
    assert "hush" == edge.host_environment("spin", SETTINGS)["SPIN_VARIABLE_NEARFAR_KEY_SECRET"]
