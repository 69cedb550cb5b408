"""A recorded run: its form (docs/runs.md), its reader, its writer."""

from nearfar.runs.header import SCHEMA, Clock, Header, Load, Objectives, TargetOf, Workload
from nearfar.runs.reader import read
from nearfar.runs.run import End, Run
from nearfar.runs.sample import Failure, Sample, Usage
from nearfar.runs.writer import RunWriter

__all__ = [
    "SCHEMA",
    "Clock",
    "End",
    "Failure",
    "Header",
    "Load",
    "Objectives",
    "Run",
    "RunWriter",
    "Sample",
    "TargetOf",
    "Usage",
    "Workload",
    "read",
]
