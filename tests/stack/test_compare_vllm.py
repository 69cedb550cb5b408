"""A deployment with a doubled prompt template beside one with the single one, on the real vLLM."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gpu_backend.server import Server
from gpu_backend.spec import ServingSpec
from nearfar import build
from nearfar.__main__ import main
from nearfar.checkout import Checkout, here
from nearfar.guard import Guard
from stack.caller import Caller
from stack.edges import Edge, Edges, settings
from stack.gates import GATE_SECRET
from stack.stores import RedisServer

# The first run installs vLLM, which is a download of gigabytes.
pytestmark = pytest.mark.timeout(1200)
ROUNDS = (12, 24, 48)
WORDS = "Mind that the reader is in a hurry and wants no more than one short plain sentence. " * 12


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The component with two more templates: some text after the question, and twice that."""
    root = tmp_path_factory.mktemp("templates")
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(here().edge, root / "edge-frontend", ignore=ignored)
    for name, text in (("single@1", WORDS), ("doubled@1", WORDS * 2)):
        path = root / "edge-frontend" / "templates" / f"{name}.toml"
        path.write_text(f'user = "{{text}} {text.strip()}"\n', encoding="utf-8")
    checkout = Checkout(root, root / "run")
    return build.component(checkout, "wasmtime", lambda text: print(text, file=sys.stderr))


@pytest.fixture
def two(
    templates: Path, vllm: Server, spec: ServingSpec, store: RedisServer, run: Path, guard: Guard
) -> Iterator[tuple[Edge, Edge]]:
    """Both edges before the one vLLM."""
    edges = Edges(templates, run, guard)
    entry = {"url": vllm.url, "model": spec.served_name}
    wanted = settings({"mock": entry}, store.url, gate_secret=GATE_SECRET)
    table = json.loads(wanted["NEARFAR_ROUTES"])
    for upstream in table["upstreams"].values():
        upstream["kind"] = "vllm"  # a salt for each tenant: no side is served the other's prefix
    wanted["NEARFAR_ROUTES"] = json.dumps(table)
    yield (
        edges.start({**wanted, "NEARFAR_TEMPLATE": "single@1"}),
        edges.start({**wanted, "NEARFAR_TEMPLATE": "doubled@1"}),
    )
    edges.stop()


def compared(
    two: tuple[Edge, Edge], folder: Path, rounds: int, capsys: pytest.CaptureFixture[str]
) -> Any:
    """What nearfar compare says of both, each asked so often by a tenant of its own."""
    folder.mkdir()
    prompts = folder / "questions.txt"
    prompts.write_text("\n".join(f"What is {n} and {n + 1}?" for n in range(2 * rounds)))
    words = ["--requests", str(2 * rounds), "--rounds", str(rounds), "--max-tokens", "1"]
    words += ["--api-key", Caller().key, "--api-key-after", Caller().key, "--warm-up", "2"]
    words += ["--model", "mock", "--prompts", str(prompts), "--out", str(folder), "--json"]
    assert 0 == main(["compare", two[0].url, two[1].url, *words])
    return json.loads(capsys.readouterr().out)


def test_a_doubled_template_is_found_before_first_content_with_larger_inputs(
    two: tuple[Edge, Edge], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for rounds in ROUNDS:
        found = compared(two, tmp_path / str(rounds), rounds, capsys)
        rows = {row["name"]: row for row in found["table"]}
        told = json.dumps(found, indent=1)
        assert found["explanation"]["most"] in (None, "engine first token"), told
        if found["explanation"]["most"] and rows["first content"]["verdict"] == "slower":
            break  # a busy machine needs more rounds to be sure; a wrong name gets no second try
    assert "slower" == rows["first content"]["verdict"], told
    # Dispatch to first content; vLLM's own clock puts it into the prefill.
    assert "engine first token" == found["explanation"]["most"], told
    assert 1.5 < rows["input tokens"]["after"] / rows["input tokens"]["before"]
    assert any("input tokens" in each for each in found["evidence"]), told
    assert any("template version changed" in each for each in found["evidence"]), told
    assert any("what made the engine take longer" in each for each in found["not_proved"]), told
    kept = [str(next(tmp_path.glob(f"{rounds}/*-{arm}.jsonl"))) for arm in ("before", "after")]
    assert 0 == main(["compare", *kept])
    print(capsys.readouterr().out)
