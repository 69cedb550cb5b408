#!/usr/bin/env python3
"""A stand-in for the Spin command line with Akamai's plugin: it keeps apps in a file and records.

It stands in where no account and no Spin is: nothing is uploaded and nothing runs. It knows the
words, options and answers of the command reference, and refuses others as the real one does.
Every call is a line of `calls.jsonl`: argv, stdin, environment, and the variables it was given
with the mode of their file. `address.json` says where an app answers: its name, or "*", → URL.
A server that `host.json` names is told of every deploy and delete, and may answer with the URL.

Tests install it by `install(folder)`; the file itself is the program, and needs nothing else.
"""

from __future__ import annotations

import json
import os
import stat
import sys
import urllib.request
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_VERSION = "spin 4.1.0 (stand-in)"
_PLUGINS = "aka 0.7.6 [installed]"


@dataclass(frozen=True)
class Spin:
    """An installed stand-in: put `folder` first on PATH."""

    folder: Path

    @property
    def calls(self) -> list[dict[str, Any]]:
        path = self.folder / "calls.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def said(self, *words: str) -> list[dict[str, Any]]:
        """The calls whose words begin so."""
        return [call for call in self.calls if call["argv"][: len(words)] == list(words)]

    @property
    def apps(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "apps.json"
        found: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        return found

    def serve_at(self, **addresses: str) -> None:
        """Say where apps answer; the name `any` stands for all others."""
        (self.folder / "address.json").write_text(json.dumps(addresses))

    def serve_by(self, url: str) -> None:
        """Name the server that runs apps in earnest."""
        (self.folder / "host.json").write_text(json.dumps({"url": url}))

    def fail(self, words: str, reason: str) -> None:
        """Let calls that begin with these words fail; an empty reason heals them."""
        (self.folder / "fail.json").write_text(json.dumps({words: reason} if reason else {}))


def install(folder: Path) -> Spin:
    """Put the stand-in into a folder as the program `spin`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "spin"
    program.write_text(f"#!{sys.executable} -SE\n" + Path(__file__).read_text().partition("\n")[2])
    program.chmod(0o755)
    return Spin(folder)


def main(argv: list[str]) -> int:
    here = Path(__file__).resolve().parent
    text = "" if sys.stdin.isatty() else sys.stdin.read()
    call = {"argv": argv, "stdin": text, "environment": dict(os.environ), **_variables(argv)}
    with (here / "calls.jsonl").open("a") as log:
        log.write(json.dumps(call) + "\n")
    for words, reason in _read(here / "fail.json").items():
        if " ".join(argv).startswith(words):
            print(f"Error: {reason}", file=sys.stderr)
            return 1
    if argv == ["--version"]:
        print(_VERSION)
    elif argv[:2] == ["plugins", "list"]:
        print(_PLUGINS)
    elif argv[:2] == ["aka", "info"]:
        print(json.dumps({"auth_info": {"accounts": [{"id": "a1", "name": "tests"}]}}))
    elif argv[:1] == ["registry"]:
        return _registry(argv[1:], text)
    elif argv[:1] == ["aka"]:
        return _Account(here).run(argv[1:])
    else:
        print(f"error: unrecognized subcommand '{' '.join(argv[:2])}'", file=sys.stderr)
        return 2
    return 0


class _Account:
    def __init__(self, here: Path) -> None:
        self._here = here
        self._apps = _read(here / "apps.json")

    def run(self, argv: list[str]) -> int:
        if argv[:1] == ["deploy"]:
            return self._deploy(argv[1:])
        if argv[:2] == ["app", "list"]:
            print(json.dumps(sorted(self._apps)))
            return 0
        app = self._named(argv)
        if app is None:
            print("Error: app not found", file=sys.stderr)
            return 1
        if argv[:2] == ["app", "status"]:
            old = f"https://{app['id']}.aka.fermyon.tech"
            print(json.dumps({**app, "urls": [old, app["url"]], "invocations": 0}))
            return 0
        if argv[:2] == ["app", "delete"] and "--no-confirm" in argv:
            _told(self._here, {"delete": app["name"]})
            del self._apps[app["name"]]
            self._write()
            return 0
        print("Error: this would ask for a confirmation", file=sys.stderr)
        return 1

    def _deploy(self, argv: list[str]) -> int:
        if "--no-confirm" not in argv:
            print("Error: this would ask for a confirmation", file=sys.stderr)
            return 1
        manifest = Path(_option(argv, "--from")).read_text()
        if not (Path(_option(argv, "--from")).parent / "edge.wasm").exists():
            print("Error: the component's source does not exist", file=sys.stderr)
            return 1
        name = _option(argv, "--create-name")
        app = self._named(argv) if "--app-id" in argv else None
        if (app is None) == (not name) or name in self._apps:
            print("Error: no such app, or one of that name exists", file=sys.stderr)
            return 1
        if app is None:
            app = {"id": str(uuid.uuid4()), "name": name, "version": 0}
            where = _read(self._here / "address.json")
            app["url"] = where.get(name) or where.get("any") or f"https://{app['id']}.fwf.app"
        app["version"] += 1
        app["manifest"] = manifest
        app |= _told(self._here, {"deploy": app["name"], **_variables(argv)})
        self._apps[app["name"]] = app
        self._write()
        print(
            f"Waiting for app to be ready... ready\n\nApp Routes:\n- edge: {app['url']} (wildcard)"
        )
        return 0

    def _named(self, argv: list[str]) -> dict[str, Any] | None:
        if "--app-name" in argv:
            return self._apps.get(_option(argv, "--app-name"))
        wanted = _option(argv, "--app-id")
        return next((app for app in self._apps.values() if app["id"] == wanted), None)

    def _write(self) -> None:
        (self._here / "apps.json").write_text(json.dumps(self._apps))


def _told(here: Path, what: dict[str, Any]) -> dict[str, Any]:
    """Tell the server that runs apps, where there is one; its answer belongs to the app."""
    url = _read(here / "host.json").get("url")
    if url is None:
        return {}
    request = urllib.request.Request(url, json.dumps(what).encode(), method="POST")  # noqa: S310
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(request, timeout=120) as answer:
        found: dict[str, Any] = json.loads(answer.read())
    return found


def _registry(argv: list[str], text: str) -> int:
    if argv[:1] == ["login"] and "--password-stdin" in argv and text:
        print("Login succeeded")
        return 0
    if argv[:1] == ["push"] and Path(_option(argv, "--from")).exists():
        print(f"Pushed with digest sha256:{'0' * 64}")
        return 0
    print("Error: not understood", file=sys.stderr)
    return 1


def _variables(argv: list[str]) -> dict[str, Any]:
    given = [argv[at + 1] for at, word in enumerate(argv) if word == "--variable"]
    files = [Path(word[1:]) for word in given if word.startswith("@")]
    modes = [stat.S_IMODE(path.stat().st_mode) for path in files]
    return {"variables": [json.loads(path.read_text()) for path in files], "modes": modes}


def _option(argv: list[str], name: str) -> str:
    return argv[argv.index(name) + 1] if name in argv else ""


def _read(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
