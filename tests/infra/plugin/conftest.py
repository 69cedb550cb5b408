"""A stand-in for Spin on PATH, and a fake edge that answers where its apps are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes import sample
from fakes import spin as stand_in
from fakes.http_edge import HttpEdge, serving
from fakes.spin import Spin

CANARY = "canary-secret-that-must-stay-where-it-belongs"


@pytest.fixture
def edge() -> Iterator[HttpEdge]:
    with serving(HttpEdge(stream=sample.stream(record=sample.miss()))) as fake:
        yield fake


@pytest.fixture
def spin(tmp_path: Path, edge: HttpEdge, monkeypatch: pytest.MonkeyPatch) -> Spin:
    """A stand-in whose apps all answer as the fake edge does."""
    installed = stand_in.install(tmp_path / "bin")
    installed.serve_at(any=edge.endpoint)
    monkeypatch.setenv("PATH", f"{installed.folder}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("LINODE_TOKEN", CANARY)
    monkeypatch.setenv("PULUMI_CONFIG_PASSPHRASE", CANARY)
    return installed


@pytest.fixture
def inputs(edge: HttpEdge) -> dict[str, Any]:
    """What the program gives an app, before `check` fills in the rest."""
    routes = {
        "version": "1",
        "upstreams": {"gpu": {"url": "https://model.example"}},
        "models": {"mock": {"upstream": "gpu"}},
    }
    variables = {
        "routes": json.dumps(routes),
        "upstream_host": "https://model.example",
        "key_secret": edge.secret,
        "upstream_keys": json.dumps({"gpu": CANARY}),
    }
    return {"name": "chat", "variables": variables, "trialSeconds": 1}
