"""The logic around the conversion; the real one runs when the whole stack is tested."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from gpu_backend import model, spec
from gpu_backend.errors import ModelError

FAKE = Path(__file__).with_name("fake_converter.py")
SMALL = spec.profile("cpu-small")


class Models:
    """A folder of models and the log of conversions."""

    def __init__(self, root: Path) -> None:
        self.folder = root / "models"
        self.log = root / "conversions"

    def ensure(self, converter: Path = FAKE) -> Path:
        made = model.ensure(SMALL, self.folder, python=Path(sys.executable), converter=converter)
        assert made is not None
        return made

    @property
    def conversions(self) -> list[str]:
        return self.log.read_text().splitlines()


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Models:
    made = Models(tmp_path)
    monkeypatch.setenv("FAKE_CONVERTER_LOG", str(made.log))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    return made


def test_a_model_is_converted_once_and_complete(models: Models) -> None:
    folder = models.ensure()
    assert folder == models.ensure()
    assert 1 == len(models.conversions)
    assert {*model.FILES, model.STAMP} == {path.name for path in folder.iterdir()}


def test_a_conversion_may_fetch_nothing(models: Models) -> None:
    models.ensure()
    assert ["1"] == models.conversions


@pytest.mark.parametrize(
    ("mode", "why"),
    [("fails", "failed: no chat template"), ("half", r"lacks tokenizer\.json")],
)
def test_a_failed_conversion_leaves_nothing_and_is_done_again(
    models: Models, monkeypatch: pytest.MonkeyPatch, mode: str, why: str
) -> None:
    monkeypatch.setenv("FAKE_CONVERTER", mode)
    with pytest.raises(ModelError, match=why):
        models.ensure()
    assert [f"{SMALL.revision}.lock"] == [path.name for path in models.folder.iterdir()]
    monkeypatch.setenv("FAKE_CONVERTER", "good")
    assert (models.ensure() / "model.safetensors").exists()


def test_what_an_interrupted_conversion_left_is_removed(models: Models) -> None:
    left = models.folder / f".{SMALL.revision}.part-abc"
    left.mkdir(parents=True)
    models.ensure()
    assert not left.exists()


def test_a_folder_that_lost_a_file_is_made_anew(models: Models) -> None:
    (models.ensure() / "tokenizer.json").unlink()
    assert (models.ensure() / "tokenizer.json").exists()
    assert 2 == len(models.conversions)


def test_another_converter_makes_the_folder_anew(models: Models, tmp_path: Path) -> None:
    models.ensure()
    other = tmp_path / "converter.py"
    other.write_text(FAKE.read_text() + "\n# another\n")
    models.ensure(other)
    assert 2 == len(models.conversions)


def test_two_at_once_convert_once(models: Models, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FAKE_CONVERTER", "slow")
    both = [threading.Thread(target=models.ensure) for _ in range(2)]
    for thread in both:
        thread.start()
    for thread in both:
        thread.join()
    assert 1 == len(models.conversions)


def test_a_model_of_the_hub_needs_no_folder(tmp_path: Path) -> None:
    qwen = spec.profile("qwen2.5-7b-rtx4000ada")
    assert model.ensure(qwen, tmp_path, python=Path("none")) is None


def test_a_model_that_no_package_carries_is_named(tmp_path: Path) -> None:
    other = replace(SMALL, model="nobody/nothing")
    with pytest.raises(ModelError, match="no package that carries nobody/nothing"):
        model.ensure(other, tmp_path, python=Path("none"))
