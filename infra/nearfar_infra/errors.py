"""What a deployment can be refused for, before anything is created.

InfraError           one line that says what is wrong, and the next step
├── ConfigError      settings are wrong or cannot work together; names every key at once
├── PinsError        images whose digest is not known; names every image at once
└── EngineError      Pulumi or one of its plugins is missing, or the engine failed
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping


class InfraError(Exception):
    """One line that says what is wrong, and one that says what to do next."""

    exit_code = 2

    def __init__(self, message: str, next_step: str) -> None:
        super().__init__(message)
        self.message = message
        self.next_step = next_step

    def __str__(self) -> str:
        return f"{self.message} Next step: {self.next_step}"


class ConfigError(InfraError):
    """Names every wrong setting (`problems`: key → what is wrong with it) and holds no value."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        listed = "; ".join(f"{key} {problem}" for key, problem in problems.items())
        first = next(iter(problems))
        super().__init__(
            f"The configuration is not valid: {listed}.",
            f"correct the named settings, as in `pulumi config set {first} VALUE`.",
        )
        self.problems = dict(problems)


class PinsError(InfraError):
    """Names every image that has a tag and no digest."""

    def __init__(self, images: Iterable[str]) -> None:
        self.images = tuple(images)
        super().__init__(
            f"No digest is known for {', '.join(self.images)}.",
            "run `nearfar images pin` once where the container registries can be reached.",
        )


class EngineError(InfraError):
    """The engine is missing or failed; the message is its own last line."""

    exit_code = 3
