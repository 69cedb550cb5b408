"""What a run was measured on and with: the machine, its load, the clock, the libraries."""

from __future__ import annotations

import os
import platform
import time
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path
from typing import Any

from nearfar.runs.header import Clock


def clock() -> Clock:
    """The clock that all instants of a run are read from: monotonic, of this process's machine."""
    info = time.get_clock_info("perf_counter")
    return Clock(f"time.perf_counter, {info.implementation}", info.resolution)


def machine(libraries: Iterable[str] = ()) -> dict[str, Any]:
    """The machine as it is now. `libraries` are those that carry what is measured."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "load_average_1min": round(os.getloadavg()[0], 2),
        "libraries": {name: metadata.version(name) for name in libraries},
    }


def _processor() -> str:
    """The model's name (proc_cpuinfo(5)), or the architecture where there is none."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()
