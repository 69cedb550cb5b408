"""One Pulumi stack on the test bed, through the Automation API's inline program."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pulumi import automation as auto

from .bed import Bed
from .say import say

PROJECT = "nearfar"
Program = Callable[[], None]
# Key with its namespace → value, and whether it is a secret.
Config = Mapping[str, tuple[str, bool]]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of the engine did. `changes` counts resources by what was done to them."""

    verb: str
    changes: Mapping[str, int]
    took_s: float
    log: Path

    @property
    def changed(self) -> int:
        """How many resources were not left as they were."""
        return sum(count for what, count in self.changes.items() if what != "same")

    def line(self) -> str:
        """The line that is printed."""
        counts = ", ".join(f"{count} {what}" for what, count in sorted(self.changes.items()))
        return f"{self.verb:<10} {counts or 'nothing':<48} {self.took_s:6.1f} s"


class Failed(Exception):
    """A run that the engine ended with an error; `text` is all that it said."""

    def __init__(self, text: str, took_s: float) -> None:
        super().__init__(text[-3000:])
        self.text = text
        self.took_s = took_s

    def reasons(self) -> list[str]:
        """The lines that name what went wrong."""
        return [line.strip() for line in self.text.splitlines() if "error:" in line]


@dataclass(slots=True)
class Deployment:
    """A stack with a file back end and a passphrase."""

    bed: Bed
    name: str
    program: Program
    config: Config
    passphrase: str
    outcomes: list[Outcome] = field(default_factory=list)
    _runs: int = 0

    @property
    def backend(self) -> Path:
        """Where states and their backups lie."""
        return self.bed.home / "backend"

    def preview(self) -> Outcome:
        return self._run("preview", lambda stack, say: stack.preview(on_output=say))

    def up(self) -> Outcome:
        return self._run("up", lambda stack, say: stack.up(on_output=say))

    def refresh(self) -> Outcome:
        return self._run("refresh", lambda stack, say: stack.refresh(on_output=say))

    def destroy(self) -> Outcome:
        return self._run("destroy", lambda stack, say: stack.destroy(on_output=say))

    def outputs(self) -> dict[str, Any]:
        """The stack's outputs in clear."""
        return {name: each.value for name, each in self.stack().outputs().items()}

    def stack(self) -> auto.Stack:
        """Select the stack, with the configuration as it is now."""
        self.backend.mkdir(exist_ok=True)
        folder = self.bed.home / "project"
        folder.mkdir(exist_ok=True)
        settings = auto.ProjectSettings(
            PROJECT, "python", backend=auto.ProjectBackend(url=f"file://{self.backend}")
        )
        options = auto.LocalWorkspaceOptions(
            work_dir=str(folder),
            pulumi_home=str(self.bed.home / "pulumi"),
            env_vars=self.bed.environment() | {"PULUMI_CONFIG_PASSPHRASE": self.passphrase},
            secrets_provider="passphrase",
            project_settings=settings,
            pulumi_command=auto.PulumiCommand(root=str(self.bed.binaries.home)),
        )
        stack = auto.create_or_select_stack(self.name, PROJECT, self.program, opts=options)
        stack.set_all_config({n: auto.ConfigValue(v, s) for n, (v, s) in self.config.items()})
        return stack

    def _run(self, verb: str, call: Callable[[auto.Stack, Callable[[str], Any]], Any]) -> Outcome:
        stack, start = self.stack(), time.monotonic()
        self._runs += 1
        log = self.bed.home / "logs" / f"{self.name}-{self._runs:02d}-{verb}.log"
        log.parent.mkdir(exist_ok=True)
        with log.open("w", buffering=1) as lines:
            try:
                result = call(stack, lambda line: lines.write(f"{line}\n"))
            except auto.CommandError as error:
                took_s = time.monotonic() - start
                lines.write(str(error))
                say(f"{verb} failed after {took_s:.1f} s; {log}")
                raise Failed(str(error), took_s) from error
        outcome = Outcome(verb, _changes(result), time.monotonic() - start, log)
        self.outcomes.append(outcome)
        say(outcome.line())
        return outcome


def _changes(result: Any) -> Mapping[str, int]:
    if isinstance(result, auto.PreviewResult):
        return Counter(
            {str(getattr(op, "value", op)): n for op, n in result.change_summary.items()}
        )
    return Counter(result.summary.resource_changes or {})
