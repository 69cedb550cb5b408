"""A link is named on a probe's evidence, and never without."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from fakes.made_run import Making, made
from nearfar.errors import BadInput
from nearfar.placement import vantage
from nearfar.placement.vantage import Vantage
from nearfar.placement.ways import Probed, Trip, Way
from nearfar.runs import RunWriter
from nearfar.stats.comparison import Comparison, Options, compared
from nearfar.stats.links import Handshakes, handshakes, read

TURNS: Mapping[str, str] = {"interleaved": "pair-1"}
DELAY_MS = 40.0


def shakes(client_ms: float = 1.0, gpu_ms: float = 1.0, count: int = 20) -> Handshakes:
    return handshakes(place(client_ms, gpu_ms, count))


def place(client_ms: float, gpu_ms: float, count: int = 20) -> Vantage:
    trips = [
        Trip("new", None, client_ms + at % 5 / 10, None, client_ms + 5, 200) for at in range(count)
    ]
    upstream = {"connect_ms": [gpu_ms + at % 7 / 10 for at in range(count)], "exchanges": []}
    probe = Probed(upstreams={"gpu-mock": upstream})
    return Vantage("here", Way("http://127.0.0.1:3000", "/healthz", trips), probe)


def pair(part: str, before: Handshakes | None, after: Handshakes | None) -> Comparison:
    one = made(Making(seed=1, drift_seed=9), settings=TURNS)
    two = made(Making(seed=2, drift_seed=9, more={part: DELAY_MS}), settings=TURNS)
    return compared(one, two, Options(draws=600, handshakes=(before, after)))


@pytest.mark.parametrize(
    ("part", "after", "name"),
    [
        ("unattributed", shakes(gpu_ms=1 + DELAY_MS), "link from edge to model server"),
        ("before t0", shakes(client_ms=1 + DELAY_MS), "link from client to edge"),
    ],
)
def test_a_link_whose_handshakes_moved_with_the_part_is_named(
    part: str, after: Handshakes, name: str
) -> None:
    found = pair(part, shakes(), after)
    assert found.link is not None
    assert (name, part) == (found.link.name, found.link.part)
    assert 1.0 == pytest.approx(found.link.share, abs=0.1)
    assert any(name in each for each in found.evidence)
    assert not any("that it is the network" in each for each in found.not_proved)


@pytest.mark.parametrize(
    ("part", "after"),
    [
        ("unattributed", None),
        ("unattributed", shakes()),
        ("unattributed", shakes(client_ms=1 + DELAY_MS)),
        ("unattributed", shakes(gpu_ms=1 + DELAY_MS / 4)),
        ("unattributed", shakes(gpu_ms=1 + DELAY_MS, count=5)),
        ("unattributed", Handshakes({})),
        ("look_up", shakes(gpu_ms=1 + DELAY_MS)),
    ],
    ids=["no probe", "still", "the other link", "too little", "too few", "none seen", "elsewhere"],
)
def test_no_link_is_named_without_proof(part: str, after: Handshakes | None) -> None:
    assert pair(part, shakes(), after).link is None


def test_several_model_servers_prove_nothing() -> None:
    both = place(1.0, 1.0)
    both.edge_probe.upstreams["gpu-other"] = {"connect_ms": [99.0] * 20, "exchanges": []}
    assert () == tuple(handshakes(both).of_part["unattributed"])


def test_what_roundtrip_printed_is_read(run: Callable[..., Any], tmp_path: Path) -> None:
    names = {}
    for name, gpu_ms in (("before", 1.0), ("after", 1.0 + DELAY_MS)):
        path = tmp_path / f"{name}.json"
        path.write_text(json.dumps(vantage.document([place(1.0, gpu_ms)])))
        names[name] = str(path)
    for name, more in (("a", 0.0), ("b", DELAY_MS)):
        made_run = made(Making(seed=1, more={"unattributed": more}))
        with RunWriter(tmp_path / f"{name}.jsonl", made_run.header) as writer:
            for sample in made_run.samples:
                writer.add(sample)
            writer.end()
    words = ("--ways-before", names["before"], "--ways-after", names["after"], "--json")
    document = run("compare", str(tmp_path / "a.jsonl"), str(tmp_path / "b.jsonl"), *words).document
    assert "link from edge to model server" == document["link"]["name"]


@pytest.mark.parametrize("text", ["", "{}", "no json", '{"schema": "nearfar.roundtrip/1"}'])
def test_a_file_that_is_no_roundtrip_is_bad_input(tmp_path: Path, text: str) -> None:
    path = tmp_path / "ways.json"
    path.write_text(text)
    with pytest.raises(BadInput):
        read(path)
