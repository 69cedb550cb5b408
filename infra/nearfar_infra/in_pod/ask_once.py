"""Asks the server of this pod for one token: exit code 0 if it answers, 1 if not yet, 2 if never.

A start-up probe. The name of the model is an argument, the secrets are the container's own
variables; it runs with the sources of the gate on its path.
"""

from __future__ import annotations

import argparse
import os
import sys

from gpu_backend import probe
from gpu_backend.errors import GpuBackendError


def main() -> int:
    parser = argparse.ArgumentParser("ask_once")
    parser.add_argument("model")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--timeout", type=float, default=20.0)
    asked = parser.parse_args()
    target = probe.Target(
        "127.0.0.1",
        asked.port,
        asked.model,
        # The second is that of a gate in front of a server that asks for none.
        api_key=os.environ.get("VLLM_API_KEY") or os.environ.get("NEARFAR_GATE_API_KEY"),
        gate_secret=os.environ.get("NEARFAR_GATE_SECRET"),
    )
    try:
        return 0 if probe.is_listening(target) and probe.answers(target, asked.timeout) else 1
    except GpuBackendError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
