"""How long a start may take, from the model's size: probe, rollout and engine all wait by this."""

from __future__ import annotations

import math
from dataclasses import dataclass

# Imports, CUDA context, the API server: seen at 25 to 90 s on slow processors (docs/serving.md).
BOOT_S = 90
# The slowest reads that a network volume is expected to give; its usual rate is several times that.
WORST_READ_BYTES_S = 60e6
# torch.compile and CUDA graphs when nothing is in the compile cache yet.
COMPILE_S = 240
# The slowest download that is waited for: image (some 10 GB packed) and weights.
WORST_DOWNLOAD_BYTES_S = 15e6
IMAGE_BYTES = 12e9
# A new GPU node: boot, then the GPU operator's driver and device plugin.
NODE_S = 900

PROBE_EVERY_S = 10


@dataclass(frozen=True, slots=True)
class StartUp:
    """The budget of one server: each figure in seconds, each lies above what it has to cover."""

    weight_bytes: int
    streamed: bool = False

    @property
    def load_s(self) -> int:
        """From the container's start to the first answer, at the worst."""
        rate = WORST_DOWNLOAD_BYTES_S if self.streamed else WORST_READ_BYTES_S
        return _minutes(BOOT_S + self.weight_bytes / rate + COMPILE_S)

    @property
    def fetch_s(self) -> int:
        """From the fetch Job's creation to its end: the image, then the weights.

        Its node is there: it waits for GPUs. What ends a Job whose image never comes is this.
        """
        weights = 0.0 if self.streamed else self.weight_bytes / WORST_DOWNLOAD_BYTES_S
        return _minutes(IMAGE_BYTES / WORST_DOWNLOAD_BYTES_S + weights)

    @property
    def probe_failures(self) -> int:
        """How often the start-up probe may fail before the kubelet ends the container."""
        return math.ceil(self.load_s / PROBE_EVERY_S)

    @property
    def progress_s(self) -> int:
        """The Deployment's own deadline (its default of 600 s is less than a load may take)."""
        return self.load_s + _minutes(NODE_S + IMAGE_BYTES / WORST_DOWNLOAD_BYTES_S)

    @property
    def await_s(self) -> int:
        """How long the engine waits for the Deployment: above everything that it may wait for."""
        return self.progress_s + 300


def _minutes(seconds: float) -> int:
    return math.ceil(seconds / 60) * 60


def timeout(seconds: int) -> str:
    """A duration as Pulumi's custom time-outs take it."""
    return f"{seconds}s"
