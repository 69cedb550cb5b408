"""A chart repository of stand-ins: small charts under the names and versions of the real ones.

Each chart's `values.schema.json` names every value that the real chart would take from us and
refuses all others, so that a misspelt value fails here as it would be ignored there. Their
templates make what the rest of the cluster looks at: custom resource definitions, Services, pods.
"""

from __future__ import annotations

import io
import tarfile
from functools import cache
from pathlib import Path

import yaml

from nearfar_infra import versions

_FOLDER = Path(__file__).parent / "charts"


def names() -> list[str]:
    """The charts that have a stand-in."""
    return sorted(each.name for each in _FOLDER.iterdir() if each.is_dir())


def index(base: str) -> bytes:
    """The repository's index.yaml."""
    entries = {
        name: [_metadata(name) | {"urls": [f"{base}/{file_name(name)}"]}] for name in names()
    }
    return str(yaml.safe_dump({"apiVersion": "v1", "entries": entries})).encode()


def file_name(name: str) -> str:
    return f"{name}-{versions.charts()[name].version}.tgz"


@cache
def archive(name: str) -> bytes:
    """The chart as helm packs it."""
    folder, packed = _FOLDER / name, io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        _add(tar, f"{name}/Chart.yaml", yaml.safe_dump(_metadata(name)).encode())
        for path in sorted(each for each in folder.rglob("*") if each.is_file()):
            _add(tar, f"{name}/{path.relative_to(folder)}", path.read_bytes())
    return packed.getvalue()


def _metadata(name: str) -> dict[str, str]:
    version = versions.charts()[name].version
    return {"apiVersion": "v2", "name": name, "version": version, "type": "application"}


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size, member.mode = len(content), 0o644
    tar.addfile(member, io.BytesIO(content))
