"""Preview, deploy and destroy by an inline program: Pulumi's engine, with this Python in it.

The Pulumi CLI runs infra/__main__.py by its Python language host; where it has none, this does the
same without one. Both use infra/Pulumi.yaml, the same stack files and the same state.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import pulumi
from pulumi import automation

from nearfar_infra import failure, names, project, stack
from nearfar_infra.errors import EngineError
from nearfar_infra.program import program

R = TypeVar("R")

Say = Callable[[str], None]
_PASSPHRASES = ("PULUMI_CONFIG_PASSPHRASE", "PULUMI_CONFIG_PASSPHRASE_FILE")


def select(name: str, root: Path = project.INFRA) -> automation.Stack:
    """Return the stack of that name, made if it is not there (a name in the state, nothing more).

    Raises:
        EngineError: Pulumi's command line is missing, or cannot open its state.
    """
    if shutil.which("pulumi") is None:
        raise EngineError(
            "The program 'pulumi' was not found.",
            "install the Pulumi CLI (pulumi.com/docs/iac/download-install) and put it on PATH.",
        )
    options = automation.LocalWorkspaceOptions(
        work_dir=str(root), env_vars=variables(os.environ, root)
    )
    try:
        return automation.create_or_select_stack(
            name, project_name=names.PROJECT, program=_not_yet, opts=options
        )
    except automation.CommandError as error:
        raise failed(error) from error


def variables(environment: Mapping[str, str], root: Path) -> dict[str, str]:
    """What the engine is told besides: where the plugin lies, and where the state, if nobody says.

    Raises:
        EngineError: the state would be encrypted by a passphrase, and there is none.
    """
    found = {"PATH": os.pathsep.join((str(root / "plugin"), environment.get("PATH", os.defpath)))}
    if "PULUMI_BACKEND_URL" in environment or "PULUMI_ACCESS_TOKEN" in environment:
        return found
    home = Path(environment.get("PULUMI_HOME", Path.home() / ".pulumi"))
    if (home / "credentials.json").exists():
        return found
    if not any(environment.get(name) for name in _PASSPHRASES):
        raise EngineError(
            "There is no passphrase for the state's secrets.",
            f"set {_PASSPHRASES[0]} (and keep it), or log in with `pulumi login`.",
        )
    folder = root.parent / ".nearfar" / "state"
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return found | {"PULUMI_BACKEND_URL": folder.as_uri()}


def prepare(chosen: automation.Stack, root: Path = project.INFRA) -> None:
    """Read and check everything, and give the stack its program; nothing is created.

    Raises:
        InfraError: what is wrong, in one line.
    """
    try:
        values = {key: entry.value for key, entry in chosen.get_all_config().items()}
    except automation.CommandError as error:
        raise failed(error) from error
    given = stack.given(values, os.environ, root)

    def declare() -> None:
        made = program(given.settings, given.sources, given.token)
        for name, value in made.exported.items():
            pulumi.export(name, value)

    chosen.workspace.program = declare


def preview(chosen: automation.Stack, say: Say) -> dict[str, int]:
    """Say what an `up` would do, and return how many resources of each operation."""
    return _counted(_run(lambda: chosen.preview(on_output=say, color="never")).change_summary)


def up(chosen: automation.Stack, say: Say) -> dict[str, int]:
    """Deploy, and return how many resources of each operation."""
    result = _run(lambda: chosen.up(on_output=say, color="never"))
    return _counted(result.summary.resource_changes)


def destroy(chosen: automation.Stack, say: Say) -> dict[str, int]:
    """Take everything away, and return how many resources of each operation."""
    result = _run(lambda: chosen.destroy(on_output=say, color="never"))
    return _counted(result.summary.resource_changes)


def _counted(changes: Mapping[Any, int] | None) -> dict[str, int]:
    return {str(getattr(kind, "value", kind)): number for kind, number in (changes or {}).items()}


def failed(error: automation.CommandError) -> EngineError:
    """The engine's own reason; the rest went to the log as it came."""
    return EngineError(failure.told(str(error)), "mend what it names, and run the same again.")


def _run(call: Callable[[], R]) -> R:
    try:
        return call()
    except automation.CommandError as error:
        raise failed(error) from error


def _not_yet() -> None:
    raise AssertionError("prepare() gives the stack its program")
