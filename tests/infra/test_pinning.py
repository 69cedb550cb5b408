"""From tags to digests, against a fake registry over real HTTP."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from fakes.registry import FakeRegistry, serving
from nearfar_infra import pinning, sources, versions
from nearfar_infra.pinning import RegistryError, _place


@pytest.fixture
def registry() -> FakeRegistry:
    return FakeRegistry()


def held(registry: FakeRegistry, *parts: str) -> dict[str, str]:
    """Every image of these parts under its whole name, as a mirror has it."""
    return {
        image.tagged: registry.hold(f"m/{image.repository}", image.tag, {"of": image.key})
        for image in sources.wanted(parts)
    }


def test_a_mirror_tells_the_digest_of_every_image_that_is_asked_for(registry: FakeRegistry) -> None:
    wanted = held(registry, "redis")
    said: list[str] = []
    with serving(registry):
        found = pinning.resolve(["redis"], f"http://{registry.host}/m", said.append)
    assert wanted == found
    assert list(wanted) == said


def test_an_image_that_is_not_there_is_one_line_that_names_it(registry: FakeRegistry) -> None:
    with serving(registry), pytest.raises(RegistryError, match="answered 404") as failed:
        pinning.resolve([], f"http://{registry.host}/m")
    assert "docker.io/" in failed.value.message
    assert 1 == len(str(failed.value).splitlines())


def test_a_registry_that_is_not_there_is_one_line() -> None:
    with pytest.raises(RegistryError, match="ConnectError"):
        pinning.resolve([], "http://127.0.0.1:9/m")


def test_docker_hub_s_api_is_at_another_host_than_its_name_says() -> None:
    hub = _place("docker.io/library/redis", None)
    assert ("https://registry-1.docker.io", "library/redis") == hub
    assert ("https://ghcr.io", "a/b") == _place("ghcr.io/a/b", None)
    assert ("http://h:5000", "m/ghcr.io/a/b") == _place("ghcr.io/a/b", "http://h:5000/m/")


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    pins = {"b.example/x:1": "sha256:" + "b" * 64, "a.example/y:2": "sha256:" + "a" * 64}
    pinning.write(tmp_path / "pins.toml", pins, "2026-11-30")
    assert pins == sources.read_pins(tmp_path / "pins.toml")
    assert sorted(pins) == re.findall(
        r'^"(.+)" =', (tmp_path / "pins.toml").read_text(), re.MULTILINE
    )


def test_every_version_has_a_day_and_none_floats() -> None:
    for image in versions.images().values():
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", image.as_of), image.key
        assert image.tag not in ("latest", "main", "master", "stable", "nightly"), image.key
        assert "." in image.repository.partition("/")[0], image.key
    for chart in versions.charts().values():
        assert re.fullmatch(r"v?\d+\.\d+\.\d+", chart.version), chart.name
        assert re.fullmatch(r"\d{4}-\d\d-\d\d", chart.as_of), chart.name
