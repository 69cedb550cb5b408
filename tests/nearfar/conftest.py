"""Runs commands in this process, as the launcher would; a certificate for servers of tests."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from nearfar.__main__ import main


@dataclass(frozen=True, slots=True)
class Ran:
    """How a command ended and what it wrote."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> Any:
        """The one line of JSON on stdout."""
        (line,) = self.out.splitlines()
        return json.loads(line)


Run = Callable[..., Ran]


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command with a run folder of its own and none of the caller's variables."""
    for name in (
        *("ENDPOINT", "API_KEY", "KEY_SECRET", "UPSTREAM_KEY", "REDIS", "GATE_REDIS", "STACK"),
    ):
        monkeypatch.delenv(f"NEARFAR_{name}", raising=False)
    monkeypatch.setenv("NEARFAR_RUN_DIR", str(tmp_path / "run"))

    def call(*argv: str) -> Ran:
        code = main(list(argv))
        written = capsys.readouterr()
        return Ran(code, written.out, written.err)

    return call


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for localhost that nobody signed but itself."""
    path = tmp_path_factory.mktemp("tls") / "pair.pem"
    argv = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    argv += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    argv += ["-keyout", str(path), "-out", str(path.with_suffix(".crt"))]
    try:
        subprocess.run(argv, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("there is no openssl on this machine to make a certificate with")
    path.write_bytes(path.read_bytes() + path.with_suffix(".crt").read_bytes())
    return path
