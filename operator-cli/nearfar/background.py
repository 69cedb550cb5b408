"""Starts `nearfar up` in the background and waits until it is ready."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nearfar import console, state
from nearfar.checkout import Checkout, python_path
from nearfar.errors import PartDied
from nearfar.guard import end_groups
from nearfar.logs import Tail
from nearfar.state import State

# Options of `up` that are for the foreground alone, and those that are secret.
_FOREGROUND = {"as_json", "detach", "question", "once", "verbose"}
_SECRET = {"upstream_key": "NEARFAR_UPSTREAM_KEY", "store_url": "NEARFAR_REDIS"}


def start(checkout: Checkout, given: Mapping[str, Any]) -> State:
    """Start the stack with these options in a session of its own; return its state when ready.

    Raises:
        PartDied: when it ended instead; its progress was shown as it came.
    """
    log = checkout.make_run() / "up.log"
    child = _spawn(checkout, given, log)
    tail = Tail(log)
    try:
        while True:
            code = child.poll()
            for line in tail.lines():
                console.say(line.removeprefix("nearfar: "))
            found = state.read(checkout)
            if found is not None and found.pid == child.pid:
                return found
            if code is not None:
                raise PartDied(f"The stack did not start (code {code}).", f"read {log}.", ())
            time.sleep(0.1)
    except BaseException:
        end_groups([child.pid], grace_s=state.STOP_TIMEOUT_S)
        child.wait()
        raise


def _spawn(checkout: Checkout, given: Mapping[str, Any], log: Path) -> subprocess.Popen[bytes]:
    secrets = {name: given[option] for option, name in _SECRET.items() if given.get(option)}
    env = os.environ | {"PYTHONPATH": python_path(checkout)} | secrets
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    try:
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "nearfar", "up", *arguments(given)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=handle,
            env=env,
            start_new_session=True,
        )
    finally:
        os.close(handle)


def arguments(given: Mapping[str, Any]) -> list[str]:
    """Return the command line of the same options, without those for the foreground or secret."""
    found: list[str] = []
    for name, value in given.items():
        if value is None or value is False or name in _FOREGROUND or name in _SECRET:
            continue
        option = f"--{name.replace('_', '-')}"
        found += [option] if value is True else [option, str(value)]
    return found
