"""Every error of the GPU half, each one clear line and the next step.

GpuBackendError
├── SpecError               a ServingSpec has fields that cannot be served
├── ModelConfigError        a config.json that the budget cannot count exactly
├── BudgetError             a question that has no answer (unknown GPU, share out of range)
├── InstallError            the vLLM environment could not be made
│   └── InstallBusyError    another process holds the lock of the same folder
├── ModelError              the model folder could not be prepared
└── ServerError             the server did not start or did not answer
    ├── PortTakenError      something else listens on the port
    ├── ServerDiedError     the process ended; carries its last log lines
    ├── ServerRefusedError  it answered, but refused a correct request
    └── ServerTimeoutError  it did not answer in time; carries its last log lines
"""

from __future__ import annotations

from collections.abc import Sequence


class GpuBackendError(Exception):
    """One line that says what is wrong, and one that says what to do next."""

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message} Next step: {self.next_step}"


class SpecError(GpuBackendError):
    """Names every wrong field of a ServingSpec at once (`problems`: field → what is wrong)."""

    def __init__(self, profile: str, problems: dict[str, str]) -> None:
        listed = "; ".join(f"{field} {problem}" for field, problem in problems.items())
        super().__init__(
            f"Serving profile {profile!r} is not valid: {listed}.",
            "correct the named fields.",
        )
        self.problems = problems


class ModelConfigError(GpuBackendError):
    """The model's config.json is unreadable or describes something that is not counted."""


class BudgetError(GpuBackendError):
    """The budget was asked for something it does not know."""


class InstallError(GpuBackendError):
    """The environment with vLLM could not be installed."""


class InstallBusyError(InstallError):
    """Another process is installing into the same folder and did not finish in time."""


class ModelError(GpuBackendError):
    """The model could not be prepared from its package."""


class ServerError(GpuBackendError):
    """The vLLM server did not come up. `log_tail` holds its last log lines."""

    def __init__(self, message: str, next_step: str, log_tail: Sequence[str] = ()) -> None:
        super().__init__(message, next_step)
        self.log_tail = tuple(log_tail)


class PortTakenError(ServerError):
    """The port is in use before the server was started."""


class ServerDiedError(ServerError):
    """The server's process ended although nobody stopped it."""


class ServerRefusedError(ServerError):
    """The server is up but refuses a correct request."""


class ServerTimeoutError(ServerError):
    """The server did not answer a request within the time given."""
