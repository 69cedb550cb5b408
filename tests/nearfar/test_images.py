"""Which images a deployment pulls, and their digests, as a fake registry tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.registry import FakeRegistry, serving
from nearfar.ports import free_port
from nearfar_infra.sources import read_pins, wanted
from nearfar_infra.versions import CORE, Image

Run = Callable[..., Any]

FIRST, *OTHERS = wanted([CORE])


@pytest.fixture
def registry() -> Iterator[FakeRegistry]:
    """A mirror under /all; it holds the images that every deployment pulls."""
    with serving(FakeRegistry()) as fake:
        for image in (FIRST, *OTHERS):
            hold(fake, image)
        yield fake


@pytest.fixture
def pins(tmp_path: Path) -> Path:
    return tmp_path / "pins.toml"


@pytest.fixture
def pin(run: Run, registry: FakeRegistry, pins: Path) -> Callable[[], Any]:
    """Pin the smallest deployment's images, as the mirror has them."""
    chosen = {
        "mirror": f"http://{registry.host}/all",
        "pins": str(pins),
        "edgeTarget": "none",
        "monitoring": "false",
        "redisUrl": "rediss://u:p@redis.example:6379/0",
    }
    words = [word for item in chosen.items() for word in ("--set", "=".join(item))]
    return lambda: run("images", "pin", *words, "--json")


def hold(registry: FakeRegistry, image: Image, made: str = "first") -> str:
    return registry.hold(f"all/{image.repository}", image.tag, {"made": made})


def test_images_are_listed_with_what_is_known_of_them(run: Run) -> None:
    document = run("images", "--json").document
    assert any(name.startswith("docker.io/vllm/vllm-openai:") for name in document["images"])
    lacking = [name for name, digest in document["images"].items() if digest is None]
    assert (1 if lacking else 0) == run("images").code


def test_pinning_writes_the_digests_that_the_mirror_serves(
    pin: Callable[[], Any], registry: FakeRegistry, pins: Path
) -> None:
    wanted_digest = hold(registry, FIRST)
    ran = pin()
    assert 0 == ran.code, ran.err
    assert wanted_digest == ran.document["images"][FIRST.tagged]
    assert ran.document["images"] == read_pins(pins)


def test_another_image_under_the_same_tag_is_pinned_anew_and_other_pins_stay(
    pin: Callable[[], Any], registry: FakeRegistry, pins: Path
) -> None:
    pin()
    other = f'"docker.io/other/image:1" = "sha256:{"d" * 64}"\n'
    pins.write_text(pins.read_text() + other)
    again = hold(registry, FIRST, made="second")
    assert 0 == pin().code
    assert again == read_pins(pins)[FIRST.tagged]
    assert "docker.io/other/image:1" in read_pins(pins)


def test_an_image_that_is_not_there_is_named_and_nothing_is_written(
    pin: Callable[[], Any], registry: FakeRegistry, pins: Path
) -> None:
    del registry.manifests[f"all/{FIRST.repository}", FIRST.tag]
    ran = pin()
    assert 3 == ran.code
    assert f"The digest of {FIRST.tagged} could not be read: the registry answered 404." in ran.err
    assert not pins.exists()


def test_a_registry_that_is_away_is_one_line(run: Run, pins: Path) -> None:
    mirror = f"mirror=http://127.0.0.1:{free_port()}/all"
    ran = run("images", "pin", "--set", mirror, "--set", f"pins={pins}")
    assert 3 == ran.code
    assert "could not be read: ConnectError." in ran.err
