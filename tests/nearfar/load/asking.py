"""Plans for a load on the fakes, and runs of it, for the tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nearfar import runs
from nearfar.exchange import Edge
from nearfar.load import session
from nearfar.load.client import Manner
from nearfar.load.plan import Naming, Plan
from nearfar.load.prompt import Prompt, Sampling
from nearfar.load.session import Session
from nearfar.load.workload import Requests
from nearfar.runs import Objectives, Run

PROMPT = Prompt(id="p", messages=[{"role": "user", "content": "one two three"}], expected="one")
REQUESTS = Requests("prompts", "p.txt", (PROMPT,))


def plan(**more: Any) -> Plan:
    """A closed loop of one unless told otherwise."""
    fields: dict[str, Any] = {"requests": REQUESTS, "sampling": Sampling(model="mock")} | more
    if not {"arrivals", "instants", "concurrency"} & fields.keys():
        fields |= {"concurrency": 1}
        fields.setdefault("count", 3)
    return Plan(**fields)


def session_of(url: str, path: Path, found: Plan, **more: Any) -> Session:
    """A session on a fake, with a name of the file's."""
    fields: dict[str, Any] = {
        "edge": Edge(url, "key"),
        "plan": found,
        "manner": Manner(timeout_s=5.0),
        "naming": Naming(),
        "objectives": Objectives(),
        "path": path,
        "run": path.stem,
    }
    return Session(**(fields | more))


def measured(url: str, folder: Path, found: Plan, **more: Any) -> Run:
    """The run of a plan, read back from its file."""
    path = folder / f"run{len(list(folder.iterdir()))}.jsonl"
    session.run(session_of(url, path, found, **more))
    return runs.read(path)
