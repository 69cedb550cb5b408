"""operator-cli/README.md and the command line say the same."""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterator

import click
import pytest

from nearfar.__main__ import COMMANDS, HELP
from nearfar.checkout import here

README = (here().root / "operator-cli" / "README.md").read_text()


def section(name: str) -> str:
    """The part of the README that is about one command."""
    found = re.search(rf"^### nearfar {name}\n(.*?)(?=^##)", README, re.MULTILINE | re.DOTALL)
    assert found, f"operator-cli/README.md has no section about {name}"
    return found[1]


def parameters(command: click.Command) -> Iterator[click.Parameter]:
    """All parameters of a command and of the commands below it."""
    yield from command.params
    if isinstance(command, click.Group):
        for below in command.commands.values():
            yield from parameters(below)


def module_command(name: str) -> click.Command:
    found = importlib.import_module(f"nearfar.commands.{name}").command
    assert isinstance(found, click.Command)
    return found


def options(name: str) -> set[str]:
    return {
        flag
        for parameter in parameters(module_command(name))
        if isinstance(parameter, click.Option) and not parameter.hidden
        for flag in parameter.opts
    }


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_of_a_command_is_described(name: str) -> None:
    text = section(name)
    assert set() == {flag for flag in options(name) if f"{flag}" not in text}


@pytest.mark.parametrize("name", COMMANDS)
def test_no_option_is_described_that_does_not_exist(name: str) -> None:
    assert set(re.findall(r"(--[a-z][a-z-]+)", section(name))) <= options(name)


def test_every_command_has_a_section_and_no_other_does() -> None:
    assert list(COMMANDS) == re.findall(r"^### nearfar (\w+)$", README, re.MULTILINE)


def test_exit_codes_are_those_of_the_help() -> None:
    described = re.findall(r"^\| (\d+) \| (.+) \|$", README, re.MULTILINE)
    assert described == re.findall(r"^  (\d+) +(.+)$", HELP, re.MULTILINE)


def test_every_variable_that_an_option_reads_is_described() -> None:
    read = {
        parameter.envvar
        for name in COMMANDS
        for parameter in parameters(module_command(name))
        if isinstance(parameter.envvar, str)
    }
    assert read
    assert set() == {name for name in read if f"`{name}`" not in README}
