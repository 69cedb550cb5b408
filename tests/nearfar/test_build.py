"""When a component is built again, and what a build that fails says."""

from __future__ import annotations

from pathlib import Path

import pytest

from nearfar import build
from nearfar.build import Artifact
from nearfar.checkout import Checkout
from nearfar.errors import NearfarError


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    source = tmp_path / "edge-frontend"
    source.mkdir()
    (source / "app.py").write_text("import a_module_that_does_not_exist\n")
    (source / "requirements.lock").write_text("spin-sdk==5.0.0\n")
    return Checkout(tmp_path, tmp_path / "run")


def test_the_hash_follows_every_file_of_the_source(checkout: Checkout) -> None:
    before = build.source_hash(checkout)
    assert before == build.source_hash(checkout)
    lock = checkout.edge / "requirements.lock"
    lock.write_text("spin-sdk==5.0.1\n")
    changed = build.source_hash(checkout)
    assert before != changed
    lock.rename(checkout.edge / "renamed.lock")
    assert changed != build.source_hash(checkout)


def test_the_hash_does_not_follow_what_tools_leave_behind(checkout: Checkout) -> None:
    before = build.source_hash(checkout)
    (checkout.edge / "__pycache__").mkdir()
    (checkout.edge / "__pycache__" / "app.pyc").write_bytes(b"\0")
    (checkout.edge / "edge.wasm").write_bytes(b"\0")
    assert before == build.source_hash(checkout)


def test_two_files_are_not_taken_for_one(checkout: Checkout) -> None:
    (checkout.edge / "a").write_text("b")
    first = build.source_hash(checkout)
    (checkout.edge / "a").write_text("")
    (checkout.edge / "b").write_text("")
    assert first != build.source_hash(checkout)


def test_an_artifact_is_current_only_with_the_recipe_it_was_made_by(tmp_path: Path) -> None:
    artifact = Artifact(tmp_path / "edge.wasm", "recipe")
    assert not artifact.is_current()
    artifact.stamp.write_text("recipe")
    assert not artifact.is_current()
    artifact.path.write_bytes(b"")
    assert artifact.is_current()
    assert not Artifact(artifact.path, "another").is_current()


def test_a_build_that_fails_shows_its_last_lines_and_leaves_no_component(
    checkout: Checkout,
) -> None:
    said: list[str] = []
    with pytest.raises(NearfarError, match="a_module_that_does_not_exist") as caught:
        build.component(checkout, "spin", said.append)
    assert caught.value.message.startswith("Building edge-spin.wasm failed")
    assert ["building edge-spin.wasm from edge-frontend (about 10 s)"] == said
    assert not (checkout.build / "edge-spin.wasm").exists()


def test_a_source_without_its_entry_is_told(checkout: Checkout) -> None:
    (checkout.edge / "app.py").unlink()
    with pytest.raises(NearfarError, match=r"app\.py does not exist"):
        build.component(checkout, "spin", lambda _: None)
