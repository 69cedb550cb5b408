"""One address under measurement."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Target:
    """Where it is, what it asks for, and its process, for memory and processor time."""

    name: str
    url: str
    model: str = "mock"
    key: str | None = None
    pid: int | None = None
    start_s: float | None = None  # from the start of its process to its first answer

    @property
    def headers(self) -> tuple[tuple[str, str], ...]:
        """The headers that this target asks for."""
        return () if self.key is None else (("Authorization", f"Bearer {self.key}"),)
