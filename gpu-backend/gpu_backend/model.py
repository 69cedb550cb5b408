"""Prepares a packaged model as a folder that vLLM loads; hub models need nothing here."""

from __future__ import annotations

import hashlib
import json
import shutil
import tempfile
from pathlib import Path

from gpu_backend import lock, steps
from gpu_backend.errors import ModelError
from gpu_backend.progress import Progress, ProgressCallback, silent
from gpu_backend.spec import ServingSpec
from gpu_backend.steps import Outcome, Step

CONVERTER = Path(__file__).with_name("convert_smollm2.py")
CONVERTS = "HuggingFaceTB/SmolLM2-135M-Instruct"
STAMP = "nearfar-stamp.json"
# What vLLM needs to serve chat from the folder.
FILES = (
    "config.json",
    "generation_config.json",
    "model.safetensors",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)

CONVERT = Step("model", "unpacking the model's weights from its package (270 MB)", 20, 600)
WAIT_FOR_OTHERS_S = 900.0


def ensure(
    spec: ServingSpec,
    models_dir: Path,
    *,
    python: Path,
    converter: Path = CONVERTER,
    progress: ProgressCallback = silent,
) -> Path | None:
    """Return the folder of the spec's model, made once; None where vLLM fetches it itself.

    `python` is the interpreter of the vLLM environment. The folder appears complete or not at
    all. Raises ModelError with the last line of the conversion.
    """
    if spec.weights_from == "hub":
        return None
    if spec.model != CONVERTS:
        raise ModelError(
            f"There is no package that carries {spec.model}.",
            f"serve {CONVERTS}, or a model from the hub.",
        )
    folder = models_dir / spec.revision
    stamp = _stamp(spec, converter)
    if _finished(folder, stamp):
        return folder

    def waiting(waited_s: float) -> None:
        doing = "waiting for another process that prepares the same model"
        progress(Progress("wait", doing, "running", elapsed_s=waited_s))

    lock_path = models_dir / f"{spec.revision}.lock"
    with lock.held(lock_path, timeout_s=WAIT_FOR_OTHERS_S, waiting=waiting):
        if not _finished(folder, stamp):
            _convert(folder, stamp, [python, converter], progress)
    return folder


def _stamp(spec: ServingSpec, converter: Path) -> dict[str, str]:
    """What the folder is made from: another package or another converter makes it anew."""
    code = hashlib.sha256(converter.read_bytes()).hexdigest()
    return {"model": spec.model, "revision": spec.revision, "converter_sha256": code}


def _finished(folder: Path, stamp: dict[str, str]) -> bool:
    try:
        found = json.loads((folder / STAMP).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(found == stamp) and all((folder / name).exists() for name in FILES)


def _convert(
    folder: Path, stamp: dict[str, str], argv: list[Path], progress: ProgressCallback
) -> None:
    for left in folder.parent.glob(f".{folder.name}.part-*"):  # by an interrupted conversion
        shutil.rmtree(left)
    made = Path(tempfile.mkdtemp(prefix=f".{folder.name}.part-", dir=folder.parent))
    try:
        # Nothing may be fetched: the package holds all that is needed.
        outcome = steps.run(
            CONVERT, [*argv, made], progress=progress, environment={"HF_HUB_OFFLINE": "1"}
        )
        _require(outcome, made)
        (made / STAMP).write_text(json.dumps(stamp), encoding="utf-8")
        shutil.rmtree(folder, ignore_errors=True)
        made.replace(folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _require(outcome: Outcome, made: Path) -> None:
    if outcome.status != 0:
        how = "took too long" if outcome.status is None else "failed"
        raise ModelError(
            f"Unpacking the model {how}: {outcome.last_line.strip()}.",
            "check the free disk space; if it persists, install the vLLM environment again.",
        )
    if missing := [name for name in FILES if not (made / name).exists()]:
        raise ModelError(
            f"The unpacked model lacks {', '.join(missing)}.",
            "install the vLLM environment again.",
        )
