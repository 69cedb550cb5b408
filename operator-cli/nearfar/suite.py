"""The whole test suite, step by step: format, lint, types, tests."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nearfar.checkout import Checkout

STEPS: dict[str, tuple[str, ...]] = {
    "format": ("ruff", "format", "--check", "--quiet"),
    "lint": ("ruff", "check", "--quiet"),
    "types": ("mypy",),
    "tests": ("pytest",),
}


@dataclass(frozen=True, slots=True)
class Outcome:
    """How one step ended."""

    step: str
    exit_code: int
    seconds: float


def run(
    checkout: Checkout,
    steps: Sequence[str],
    extra: Sequence[str],
    say: Callable[[str], None],
    *,
    quiet: bool = False,
) -> list[Outcome]:
    """Run the named steps in order until one fails; `extra` goes to pytest.

    `quiet` sends what the steps print to stderr.
    """
    outcomes: list[Outcome] = []
    for step in steps:
        say(f"{step}: {' '.join(STEPS[step])}")
        began = time.monotonic()
        argv = [sys.executable, "-m", *STEPS[step], *(extra if step == "tests" else ())]
        code = _call(checkout, argv, quiet=quiet)
        outcomes.append(Outcome(step, code, round(time.monotonic() - began, 1)))
        if code != 0:
            break
    return outcomes


def _call(checkout: Checkout, argv: Sequence[str], *, quiet: bool) -> int:
    # What the caller set for a stack of his own must not reach the tests' stacks.
    env = {name: value for name, value in os.environ.items() if not name.startswith("NEARFAR_")}
    env.pop("PYTHONPATH", None)
    stdout = sys.stderr if quiet else None
    with subprocess.Popen(argv, cwd=checkout.root, env=env, stdout=stdout) as step:
        try:
            return step.wait()
        except KeyboardInterrupt:
            # The step got it too, and has servers to end before it is gone.
            step.wait()
            raise
