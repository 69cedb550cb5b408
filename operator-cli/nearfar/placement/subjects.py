"""What is started and measured, in the order it is shown, and which placements need it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Placement = Literal["one-box", "container", "split"]
PLACEMENTS: tuple[Placement, ...] = ("one-box", "container", "split")
TITLES: dict[Placement, str] = {
    "one-box": "one GPU box",
    "container": "container serverless",
    "split": "edge plus GPU",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing that starts. `cold` and `warm` say what is measured of it."""

    name: str
    title: str
    cold: str
    warm: str
    slow: bool = False


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject(
            "edge-instance",
            "edge: a component instance",
            "a request for which the running host makes a new instance",
            "the same request to an instance that has served before",
        ),
        Subject(
            "edge-host",
            "edge: a host process",
            "a new wasmtime process with the component compiled before, up to its first answer",
            "not measured: it is the edge's warm instance",
        ),
        Subject(
            "edge-compile",
            "edge: a host that compiles",
            "a new wasmtime process that compiles the component first, up to its first answer",
            "not measured: it is the edge's warm instance",
            slow=True,
        ),
        Subject(
            "container",
            "container style: a plain server process",
            "a new Python process with the same core, up to its first answer",
            "the same request to a process that has served before",
        ),
        Subject(
            "engine",
            "GPU half: vLLM",
            "a new vLLM, its model on local disk, up to the first token (seen 250 ms late at most)",
            "the first token of an answer by a vLLM that has answered before",
            slow=True,
        ),
        Subject(
            "pod",
            "GPU half: a Kubernetes pod",
            "a pod from its creation to ready, in whole seconds of the cluster's own clocks",
            "not measured: it is the warm vLLM",
            slow=True,
        ),
        Subject(
            "pod-answer",
            "GPU half: a pod that was deleted",
            "from deleting a pod to the first token through the edge, by our own clock",
            "not measured: it is the warm vLLM",
            slow=True,
        ),
    )
}
# What a placement's path and model stand on. The pod joins where a kubeconfig was given.
PATH: dict[Placement, str] = {
    "one-box": "container",
    "container": "container",
    "split": "edge-instance",
}
WANTED: dict[Placement, tuple[str, ...]] = {
    "one-box": ("container", "engine"),
    "container": ("container", "engine"),
    "split": ("edge-instance", "edge-host", "edge-compile", "engine"),
}


def wanted(placements: tuple[Placement, ...]) -> tuple[str, ...]:
    """The subjects that these placements need, each once, in the order they are shown."""
    names = {name for placement in placements for name in WANTED[placement]}
    return tuple(name for name in SUBJECTS if name in names)
