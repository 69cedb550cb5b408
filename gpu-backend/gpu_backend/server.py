"""Starts a real vLLM server, waits until it really answers, and stops it without a trace."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from gpu_backend import command, phases, probe
from gpu_backend.errors import PortTakenError, ServerDiedError, ServerError, ServerTimeoutError
from gpu_backend.phases import ANSWER, LogFollower, Phase
from gpu_backend.probe import Target
from gpu_backend.progress import Progress, ProgressCallback, State, silent
from gpu_backend.spec import ServingSpec

GUARD = Path(__file__).with_name("guard.py")
PACKAGE_ROOT = Path(__file__).parent.parent

READY_TIMEOUT_S = 300.0
STOP_GRACE_S = 10.0
POLL_S = 0.25
# How long one first request may take before it is asked again.
ANSWER_TIMEOUT_S = 60.0
# How long the guard may take beyond the grace to end what is left.
KILL_TIMEOUT_S = 10.0

# A VLLM_PORT or the like from elsewhere would change the server or its gate, a PYTHONPATH its
# imports, and PYTHONDONTWRITEBYTECODE would double the time of its imports.
_NOT_INHERITED = re.compile(r"VLLM_|NEARFAR_GATE_|PYTHON|VIRTUAL_ENV")
_LOG_PREFIX = re.compile(r"^\(\w+ pid=\d+\) +(\w+ [\d-]+ [\d:]+ \[[^\]]*\] ?)?")
_CAUSE = re.compile(r"\b\w*(Error|Exception|error)\b: *\S")


class Server:
    """A vLLM server that answered. `start_s` holds how long each phase of its start took."""

    def __init__(self, target: Target, guard: subprocess.Popen[bytes], pid: int, log: Path) -> None:
        self.target = target
        self.pid = pid
        self.log = log
        self.start_s: dict[str, float] = {}
        self._guard = guard

    @property
    def url(self) -> str:
        """Base address without `/v1`."""
        return self.target.url

    @property
    def alive(self) -> bool:
        return self._guard.poll() is None

    def check(self) -> None:
        """Raise ServerDiedError if the server has ended although nobody stopped it."""
        if not self.alive:
            raise _died(self._guard, self.log, "while it served")

    def stop(self) -> None:
        """End the server, its engine and its workers; safe to call twice."""
        _stop(self._guard)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


def start(
    spec: ServingSpec,
    *,
    python: Path,
    log: Path,
    model_dir: Path | None = None,
    host: str = "127.0.0.1",
    port: int = 0,
    api_key: str | None = None,
    gate: Mapping[str, str] | None = None,
    ready_timeout_s: float = READY_TIMEOUT_S,
    progress: ProgressCallback = silent,
) -> Server:
    """Start vLLM for `spec` with the interpreter of its environment, and return when it answers.

    Port 0 takes a free one. The log file is written anew. `gate` holds the settings of the gate
    (NEARFAR_GATE_*) where the spec is gated. Raises PortTakenError, ServerDiedError,
    ServerRefusedError or ServerTimeoutError; nothing is left running then.
    """
    port = _free_port(host, port)
    flags = command.flags(spec, host=host, port=port, model_dir=model_dir)
    extra = command.environment(spec, api_key=api_key) | dict(gate or {})
    if spec.middleware:
        extra["PYTHONPATH"] = str(PACKAGE_ROOT)
    return launch(
        command.module_argv(python, flags),
        target=Target(host, port, spec.served_name, api_key, extra.get("NEARFAR_GATE_SECRET")),
        environment=extra,
        log=log,
        ready_timeout_s=ready_timeout_s,
        progress=progress,
    )


def launch(
    argv: Sequence[str],
    *,
    target: Target,
    environment: Mapping[str, str],
    log: Path,
    ready_timeout_s: float = READY_TIMEOUT_S,
    stop_grace_s: float = STOP_GRACE_S,
    progress: ProgressCallback = silent,
) -> Server:
    """Start `argv` under the guard and wait until `target` answers."""
    guard = _spawn(argv, environment, log, stop_grace_s)
    try:
        server = Server(target, guard, _pid(guard, log), log)
        _Wait(server, guard, time.monotonic(), ready_timeout_s, progress).until_it_answers()
    except BaseException:
        _stop(guard)
        raise
    return server


def _free_port(host: str, port: int) -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probing:
        probing.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probing.bind((host, port))
        except OSError as error:
            raise PortTakenError(
                f"Port {port} of {host} cannot be used ({error.strerror}).",
                "stop what listens there, or choose another port.",
            ) from error
        return int(probing.getsockname()[1])


def _spawn(
    argv: Sequence[str], extra: Mapping[str, str], log: Path, stop_grace_s: float
) -> subprocess.Popen[bytes]:
    inherited = {k: v for k, v in os.environ.items() if not _NOT_INHERITED.match(k)}
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as output:
        return subprocess.Popen(
            # -I: the guard needs the standard library and nothing of this process's paths.
            [sys.executable, "-I", str(GUARD), str(stop_grace_s), *argv],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=output,
            env=inherited | dict(extra),
            start_new_session=True,
        )


def _pid(guard: subprocess.Popen[bytes], log: Path) -> int:
    assert guard.stdout is not None  # noqa: S101 - asked for with PIPE
    with guard.stdout as told:
        first = told.readline().strip()
    if not first.isdigit():
        guard.wait(KILL_TIMEOUT_S)
        raise _died(guard, log, "before it began")
    return int(first)


def _stop(guard: subprocess.Popen[bytes]) -> None:
    """Close the guard's input, its sign that we are done, and wait until it is gone."""
    if guard.stdin is not None:
        with contextlib.suppress(OSError):
            guard.stdin.close()
    grace_s = float(str(guard.args[3])) if isinstance(guard.args, list) else STOP_GRACE_S
    killed = False
    try:
        killed = guard.wait(grace_s + KILL_TIMEOUT_S) < 0
    except subprocess.TimeoutExpired:
        killed = True
    if killed:
        # A guard that was killed could end nobody; its group still bears its number.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(guard.pid, signal.SIGKILL)
        guard.wait()


@dataclass(slots=True)
class _Wait:
    """The wait for the first answer, with its phases and its end."""

    server: Server
    guard: subprocess.Popen[bytes]
    began: float
    timeout_s: float
    progress: ProgressCallback
    phase: Phase | None = None
    phase_began: float = 0.0

    def until_it_answers(self) -> None:
        log = LogFollower(self.server.log)
        while True:
            self._enter(log.read())
            if self.guard.poll() is not None:
                raise _died(self.guard, self.server.log, "before it answered")
            if probe.is_listening(self.server.target) and self._answers():
                self._leave()
                return
            if self._left_s() <= 0:
                raise self._timed_out()
            time.sleep(POLL_S)

    def _answers(self) -> bool:
        self._enter(ANSWER)
        return probe.answers(self.server.target, max(1.0, min(ANSWER_TIMEOUT_S, self._left_s())))

    def _left_s(self) -> float:
        return self.began + self.timeout_s - time.monotonic()

    def _enter(self, phase: Phase) -> None:
        if phase is not self.phase and self.phase is not ANSWER:
            self._leave()
            self.phase, self.phase_began = phase, time.monotonic()
            self._tell("started")
        else:
            self._tell("running")

    def _leave(self) -> None:
        if self.phase is not None:
            self.server.start_s[self.phase.name] = time.monotonic() - self.phase_began
            self._tell("done")

    def _tell(self, state: State) -> None:
        assert self.phase is not None  # noqa: S101 - set by _enter
        elapsed_s = time.monotonic() - self.phase_began
        report = Progress(self.phase.name, self.phase.doing, state, self.phase.usual_s, elapsed_s)
        self.progress(report)

    def _timed_out(self) -> ServerError:
        phase = self.phase.doing if self.phase else "starting"
        return ServerTimeoutError(
            f"The server did not answer within {self.timeout_s:.0f} s; it was {phase}.",
            f"read {self.server.log}, or allow more time.",
            phases.tail(self.server.log),
        )


def _died(guard: subprocess.Popen[bytes], log: Path, when: str) -> ServerDiedError:
    lines = phases.tail(log)
    return ServerDiedError(
        f"The server ended with status {guard.wait(KILL_TIMEOUT_S)} {when}: {_cause(lines)}.",
        f"read {log} for the whole story, correct the cause and start again.",
        lines,
    )


def _cause(lines: Sequence[str]) -> str:
    """The last line that names an error, or the last line."""
    bare = [_LOG_PREFIX.sub("", line).strip() for line in lines]
    named = [line for line in bare if _CAUSE.search(line)]
    return (named or bare or ["its log is empty"])[-1].rstrip(".")
