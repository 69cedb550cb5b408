"""The core takes values and gives values: it knows no host, socket, clock or environment."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "edge-frontend/edge_frontend"
CORE = sorted(path for path in PACKAGE.rglob("*.py") if "adapters" not in path.parts)
HOST = (
    "spin_sdk", "componentize_py_async_support", "componentize_py_runtime", "componentize_py_types",
    "wit_world",
)  # fmt: skip
WORLD = (
    "datetime.now", "os", "random", "redis", "requests", "secrets", "select", "selectors", "socket",
    "ssl", "subprocess", "sys", "tempfile", "threading", "time", "uuid", "httpx",
)  # fmt: skip
# What reads its files when the component is built; urllib.parse only takes text apart.
READERS = ("templates.py", "description.py", "guard_rules.py")
# Puts something in the place of what PyJWT cannot import in a component, when that is built.
WITHOUT_SSL = "pyjwt.py"
BLOCKED = (*HOST, "redis", "httpx", "requests")


def imported(tree: ast.AST) -> set[str]:
    """The dotted names of all modules that are imported, relative ones without their dots."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names |= {f"{node.module or ''}.{alias.name}".strip(".") for alias in node.names}
    return names


def test_there_is_a_core_to_look_at() -> None:
    assert {"flow.py", "account.py", "flight.py"} <= {path.name for path in CORE}


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.name)
def test_a_core_module_imports_no_host_and_nothing_of_the_world(path: Path) -> None:
    names = imported(ast.parse(path.read_text()))
    tops = {name.partition(".")[0] for name in names}
    assert not tops & set(HOST)
    assert path.name == WITHOUT_SSL or not (tops | names) & set(WORLD)
    assert "adapters" not in tops
    if path.name not in READERS:
        assert not tops & {"io", "pathlib", "shutil", "glob"}


@pytest.mark.parametrize("path", CORE, ids=lambda path: path.name)
def test_a_core_module_asks_no_clock_opens_no_file_and_starts_nothing(path: Path) -> None:
    called = {
        node.func.attr if isinstance(node.func, ast.Attribute) else node.func.id
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute | ast.Name)
    }
    forbidden = {"open", "print", "input", "now", "utcnow", "today", "sleep", "wait_for", "getenv"}
    assert not called & forbidden
    assert path.name in READERS or not called & {"read_text", "read_bytes", "glob"}


def test_the_whole_core_imports_where_no_host_is() -> None:
    program = f"""
import importlib, sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {BLOCKED!r}:
            raise ImportError("the core must not import " + name)
sys.meta_path.insert(0, Refuse())
for name in {[path.stem for path in CORE if path.stem != "__init__"]!r}:
    importlib.import_module("edge_frontend." + name)
print(sorted(m for m in sys.modules if m.startswith("edge_frontend")))
"""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(PACKAGE.parent)},
    )
    assert (0, "") == (done.returncode, done.stderr)
    assert "edge_frontend.flow" in done.stdout
    assert "adapters" not in done.stdout


def test_importing_the_core_reads_no_setting() -> None:
    """componentize-py freezes what is read at import into the component."""
    program = """
import os
class Watched(dict):
    def __getitem__(self, name):
        assert not str(name).upper().startswith("NEARFAR"), name
        return super().__getitem__(name)
    def get(self, name, default=None):
        assert not str(name).upper().startswith("NEARFAR"), name
        return super().get(name, default)
os.environ = Watched(os.environ)
import edge_frontend.flow
"""
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), "NEARFAR_STORE": "none"}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    assert (0, "") == (done.returncode, done.stderr)
