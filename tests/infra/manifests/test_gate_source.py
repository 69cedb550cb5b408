"""The gate's files as a ConfigMap carries them, put back and run."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fakes.engine import SECRET, Served, serve
from gpu_backend.gate.settings import Settings
from nearfar_infra.manifests import gate_source

KEY = "a key of the gate's own that is long enough"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a pod would see: the ConfigMap's data, by the volume's items."""
    root = tmp_path_factory.mktemp("gate")
    data = gate_source.config_map("nearfar-serving")["data"]
    for item in gate_source.volume(gate_source.name())["configMap"]["items"]:
        path = root / item["path"]
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(data[item["key"]], "utf-8")
    return root


def run(folder: Path, *argv: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Python with nothing of this checkout on its path but what is in the folder."""
    given = {"PATH": os.defpath, "PYTHONPATH": str(folder), **variables}
    return subprocess.run(
        [sys.executable, "-P", *argv],
        env=given,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_the_gate_is_whole_without_the_checkout(folder: Path) -> None:
    program = "from gpu_backend.gate import Gate, __file__ as f; print(Gate.__name__, f)"
    ran = run(folder, "-c", program)
    assert ["Gate", str(folder / "gpu_backend/gate/__init__.py")] == ran.stdout.split(), ran.stderr


def test_the_process_of_its_own_starts_as_far_as_its_settings(folder: Path) -> None:
    ran = run(
        folder, "-m", "gpu_backend.gate", "--upstream", "http://127.0.0.1:9", NEARFAR_GATE_NONE="1"
    )
    assert 2 == ran.returncode
    assert "NEARFAR_GATE_NONE" in ran.stderr


def test_it_fits_into_a_config_map() -> None:
    data = gate_source.config_map("x")["data"]
    assert sum(map(len, data.values())) < 900_000
    assert all("/" not in key for key in data)


def test_the_name_changes_with_a_file_and_with_nothing_else() -> None:
    texts = gate_source.files()
    changed = texts | {"gpu_backend/grant.py": texts["gpu_backend/grant.py"] + "\n"}
    assert gate_source.digest(texts) != gate_source.digest(changed)
    assert gate_source.digest(texts) == gate_source.digest(dict(reversed(texts.items())))


async def asked(folder: Path, served: Served, **variables: str) -> tuple[int, str]:
    """How the start-up probe ends against a server that listens."""
    port = served.url.rpartition(":")[2]
    argv = [str(folder / "ask_once.py"), "small", "--port", port, "--timeout", "5"]
    ran = await asyncio.to_thread(run, folder, *argv, **variables)
    return ran.returncode, ran.stderr


async def test_the_start_up_probe_passes_once_a_token_came_through_the_gate(folder: Path) -> None:
    chosen = Settings(secrets=(SECRET,), api_key=KEY.encode())
    async with serve(chosen) as served:
        right = {"NEARFAR_GATE_SECRET": SECRET.decode(), "NEARFAR_GATE_API_KEY": KEY}
        assert (0, "") == await asked(folder, served, **right)
        wrong = right | {"NEARFAR_GATE_SECRET": "w" * 40}
        code, told = await asked(folder, served, **wrong)
        assert 2 == code
        assert "status 401" in told


def test_the_start_up_probe_waits_while_nobody_listens(folder: Path) -> None:
    ran = run(folder, str(folder / "ask_once.py"), "small", "--port", "9", "--timeout", "1")
    assert (1, "") == (ran.returncode, ran.stderr)
