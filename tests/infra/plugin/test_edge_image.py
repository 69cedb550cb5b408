"""The edge's image: what is pushed is what a pod runs, and it serves."""

from __future__ import annotations

import gzip
import io
import json
import os
import subprocess
import tarfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from edge_frontend import keys
from fakes.registry import PASSWORD, USER, FakeRegistry, serving
from fakes.spin import Spin
from nearfar.ports import free_port
from nearfar_infra import edge_settings
from nearfar_infra.manifests import wasmtime_edge
from nearfar_infra.plugin.edge_image import EdgeImage
from nearfar_infra.plugin.spin_artifact import SpinArtifact

CONFIG = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": []}}
KIND = EdgeImage()
SECRET = "s" * 40


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving(FakeRegistry()) as registry:
        registry.hold("distroless/cc", "nonroot", CONFIG)
        yield registry


def inputs(fake: FakeRegistry) -> dict[str, Any]:
    found, problems = KIND.check(
        {
            "repository": f"{fake.host}/acme/edge",
            "base": f"{fake.host}/distroless/cc:nonroot",
            "user": USER,
            "password": PASSWORD,
            "plain": True,
        }
    )
    assert {} == dict(problems)
    return dict(found)


def unpack(fake: FakeRegistry, reference: str, into: Path) -> dict[str, Any]:
    """Lay the image's files out as a node would; answers its configuration."""
    name, _, digest = reference.partition("/")[2].partition("@")
    document = json.loads(fake.manifests[name, digest])
    for layer in document["layers"]:
        data = gzip.decompress(fake.blobs[layer["digest"]])
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            archive.extractall(into, filter="data")
    config: dict[str, Any] = json.loads(fake.blobs[document["config"]["digest"]])
    return config


@pytest.mark.timeout(400)
def test_the_pushed_image_serves_with_the_words_of_the_deployment(
    fake: FakeRegistry, tmp_path: Path
) -> None:
    made = KIND.create(inputs(fake))
    config = unpack(fake, made.outputs["reference"], tmp_path)
    assert ("65532:65532", ["/usr/bin/wasmtime"]) == (
        config["config"]["User"],
        config["config"]["Entrypoint"],
    )
    settings = {
        "NEARFAR_ROUTES": json.dumps(
            {
                "version": "1",
                "upstreams": {"gpu": {"url": "http://127.0.0.1:1"}},
                "models": {"m": {"upstream": "gpu"}},
            }
        ),
        "NEARFAR_KEY_SECRET": SECRET,
    }
    pod = wasmtime_edge.deployment("t", "n", "i", settings, 1, private=False)
    (container,) = pod["spec"]["template"]["spec"]["containers"]
    port = free_port()
    here = {"0.0.0.0:3000": f"127.0.0.1:{port}", "/app/edge.cwasm": f"{tmp_path}/app/edge.cwasm"}
    argv = [f"{tmp_path}/usr/bin/wasmtime", *(here.get(word, word) for word in container["args"])]
    with subprocess.Popen(argv, env={**os.environ, **settings}) as server:
        try:
            key = keys.mint(SECRET, keys.Claims("k", "t", int(time.time()) + 60))
            models = ask(f"http://127.0.0.1:{port}/v1/models", key)
        finally:
            server.terminate()
    assert ["m"] == [entry["id"] for entry in models["data"]]


def ask(url: str, key: str) -> Any:
    """GET it, and again while nobody listens yet."""
    end = time.monotonic() + 60
    while True:
        try:
            return httpx.get(url, headers={"authorization": f"Bearer {key}"}, timeout=30).json()
        except httpx.ConnectError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)


@pytest.mark.timeout(400)
def test_the_same_source_is_the_same_digest_and_no_change(fake: FakeRegistry) -> None:
    given = inputs(fake)
    one, two = KIND.create(given), KIND.create(given)
    assert one.outputs["reference"] == two.outputs["reference"]
    assert () == KIND.diff(one.outputs, given, inputs(fake)).properties
    assert KIND.read(one.id, one.outputs) is not None


@pytest.mark.parametrize(
    ("change", "changed"),
    [({"component": "other"}, ("component",)), ({"base": "x.y/z"}, ("base",)), ({"user": "u"}, ())],
)
def test_what_it_is_made_from_is_a_change_and_who_pushes_is_none(
    fake: FakeRegistry, change: dict[str, Any], changed: tuple[str, ...]
) -> None:
    given = inputs(fake)
    assert changed == KIND.diff(given, given, {**given, **change}).properties


def test_an_image_that_is_gone_is_read_as_gone(fake: FakeRegistry) -> None:
    gone = {**inputs(fake), "reference": f"{fake.host}/acme/edge@sha256:{'0' * 64}"}
    assert KIND.read("x", gone) is None


def test_spin_pushes_its_artifact_and_gets_the_password_on_standard_input(spin: Spin) -> None:
    kind = SpinArtifact()
    given, _ = kind.check({"repository": "r.example/acme/edge", "user": USER, "password": PASSWORD})
    made = kind.create(given)
    assert made.outputs["reference"].startswith("r.example/acme/edge:")
    login, push = spin.calls
    assert PASSWORD == login["stdin"]
    assert ["registry", "push"] == push["argv"][:2]
    for call in spin.calls:
        assert PASSWORD not in json.dumps([call["argv"], call["environment"]])


def test_a_version_is_named_after_all_it_follows_from() -> None:
    one = edge_settings.fingerprint({"a": "1"}, "image")
    assert one == edge_settings.fingerprint({"a": "1"}, "image")
    assert one != edge_settings.fingerprint({"a": "2"}, "image")
    assert one != edge_settings.fingerprint({"a": "1"}, "other")
