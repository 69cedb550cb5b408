"""Images made and pushed without a container engine, against a registry that checks."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fakes.registry import PASSWORD, USER, FakeRegistry, digest_of, serving
from nearfar_infra.plugin import oci
from nearfar_infra.plugin.kinds import KindError
from nearfar_infra.plugin.oci import Reference, Registry

CONFIG = {"architecture": "amd64", "os": "linux", "rootfs": {"type": "layers", "diff_ids": ["x"]}}


@pytest.fixture
def fake() -> Iterator[FakeRegistry]:
    with serving(FakeRegistry()) as registry:
        yield registry


def test_a_name_is_read_with_port_tag_and_digest() -> None:
    digest = "sha256:" + "a" * 64
    assert Reference("r.example:5000", "a/b", "v1", digest) == Reference.of(
        f"r.example:5000/a/b:v1@{digest}"
    )
    assert digest == Reference.of(f"r.example/a@{digest}").wanted
    with pytest.raises(KindError, match="not the name of an image"):
        Reference.of("Not A Name")


def test_the_same_files_make_the_same_layer(tmp_path: Path) -> None:
    (tmp_path / "program").write_bytes(b"code")
    one, first = oci.layer({"usr/bin/program": tmp_path / "program"})
    (tmp_path / "program").touch()
    two, second = oci.layer({"usr/bin/program": tmp_path / "program"})
    assert (one.digest, first) == (two.digest, second)
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(one.data))) as archive:
        (entry,) = archive.getmembers()
        assert ("usr/bin/program", 0o755, 0, 0) == (entry.name, entry.mode, entry.uid, entry.mtime)
    assert first == oci.digest(gzip.decompress(one.data))


def test_an_image_is_put_on_a_base_and_pushed_whole(fake: FakeRegistry, tmp_path: Path) -> None:
    base_digest = fake.hold("base", "nonroot", CONFIG, b"base layer")
    (tmp_path / "program").write_bytes(b"code")
    registry = Registry(fake.host, USER, PASSWORD, plain=True)
    base = registry.base(Reference.of(f"{fake.host}/base:nonroot@{base_digest}"))
    layers = [oci.layer({"bin/program": tmp_path / "program"})]
    manifest, config, added = oci.on_top(base, layers, {"Entrypoint": ["/bin/program"]})
    target = Reference.of(f"{fake.host}/acme/edge:1")
    for item in base.layers:
        registry.put(target, item, registry.pieces(base.reference, item))
    for item in (*added, config):
        registry.put(target, item)
    registry.put_manifest(target, manifest)

    document = json.loads(fake.manifests["acme/edge", "1"])
    assert manifest.digest == registry.digest_of(target)
    assert [digest_of(b"base layer"), added[0].digest] == [
        layer["digest"] for layer in document["layers"]
    ]
    pushed = json.loads(fake.blobs[document["config"]["digest"]])
    assert ["x", layers[0][1]] == pushed["rootfs"]["diff_ids"]
    assert ["/bin/program"] == pushed["config"]["Entrypoint"]
    assert base_digest == document["annotations"]["org.opencontainers.image.base.digest"]


def test_what_is_there_is_not_uploaded_again(fake: FakeRegistry) -> None:
    registry = Registry(fake.host, USER, PASSWORD, plain=True)
    target, item = Reference.of(f"{fake.host}/acme/edge:1"), oci.blob("x", b"data")
    registry.put(target, item)
    fake.asked.clear()
    registry.put(target, item)
    assert ["HEAD"] == [method for method, _ in fake.asked]


def test_a_wrong_password_is_told_without_showing_it(fake: FakeRegistry) -> None:
    registry = Registry(fake.host, USER, "wrong-canary", plain=True)
    with pytest.raises(KindError, match="answered 403") as caught:
        registry.put(Reference.of(f"{fake.host}/acme/edge:1"), oci.blob("x", b"data"))
    assert "wrong-canary" not in str(caught.value)
    assert "wrong-canary" not in repr(registry)


def test_a_tag_that_is_not_there_has_no_digest(fake: FakeRegistry) -> None:
    assert "" == Registry(fake.host, plain=True).digest_of(Reference.of(f"{fake.host}/a/b:none"))


def test_a_registry_that_sends_another_image_than_the_pinned_one_is_refused(
    fake: FakeRegistry,
) -> None:
    pinned = "sha256:" + "0" * 64
    fake.hold("base", "t", CONFIG)
    fake.manifests["base", pinned] = fake.manifests["base", "t"]
    with pytest.raises(KindError, match="another image than the pinned one"):
        Registry(fake.host, plain=True).base(Reference.of(f"{fake.host}/base@{pinned}"))


def test_of_several_platforms_the_clusters_is_taken(fake: FakeRegistry) -> None:
    digest = fake.hold("base", "amd64", CONFIG)
    entry = {"digest": digest, "platform": {"os": "linux", "architecture": "amd64"}}
    other = {"digest": "sha256:1", "platform": {"os": "linux", "architecture": "arm64"}}
    fake.put("base", "all", json.dumps({"manifests": [other, entry]}).encode())
    found = Registry(fake.host, plain=True).base(Reference.of(f"{fake.host}/base:all"))
    assert digest == found.digest
    fake.put("base", "arm", json.dumps({"manifests": [other]}).encode())
    with pytest.raises(KindError, match="not there for linux/amd64"):
        Registry(fake.host, plain=True).base(Reference.of(f"{fake.host}/base:arm"))
