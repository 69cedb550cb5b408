"""The Spin command line as this plugin uses it.

Source of every option: techdocs.akamai.com/akamai-functions/docs/aka-command-reference, plugin
0.7.6 (page of 2026-09-22). A value never stands on a command line: `--variable @FILE.json` (since
0.4.0) takes it from a file, `registry login --password-stdin` from standard input.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nearfar_infra.plugin.kinds import KindError

# Uploading 26 MB and waiting until every region answers took minutes at the most in reports.
DEPLOY_S = 900
ASK_S = 120
# The rest of the environment is none of Spin's business: it holds the cloud's token, for one.
_PASSED = ("PATH", "HOME", "TMPDIR", "USER", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR")
_PASSED_PREFIXES = ("SPIN_", "XDG_", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy")
# Akamai gives an app two addresses; this one is the old one (akamai-functions-mcp-server).
_OLD_DOMAIN = "aka.fermyon.tech"


@dataclass(frozen=True, slots=True)
class App:
    """An app as Akamai Functions knows it."""

    id: str
    name: str
    url: str


@dataclass(frozen=True, slots=True)
class Akamai:
    """The apps of one account; an empty name is the account that the login chose."""

    account: str = ""

    def find(self, name: str) -> App | None:
        """Return the app of that name."""
        apps = _json(self._run(("app", "list", "--format", "json"), "list the apps"))
        # Its documentation shows a list of names, its own tools read a list of objects.
        names = {str(app.get("name")) if isinstance(app, dict) else str(app) for app in apps}
        return self.look("--app-name", name) if name in names else None

    def exists(self, app: App) -> bool:
        return self.find(app.name) is not None

    def look(self, flag: str, value: str) -> App:
        """Return an app by `--app-name` or `--app-id`."""
        status = _json(
            self._run(("app", "status", flag, value, "--format", "json"), "look at the app")
        )
        urls = [str(url) for url in status.get("urls") or ()]
        current = [url for url in urls if not url.rstrip("/").endswith(_OLD_DOMAIN)]
        if not status.get("id") or not urls:
            raise KindError(
                "`spin aka app status` named no address for the app.",
                "look at it yourself, and update the plugin: spin plugins upgrade aka",
            )
        return App(str(status["id"]), str(status["name"]), (current or urls)[0].rstrip("/"))

    def deploy(self, folder: Path, variables: Path, app: App | None, name: str) -> None:
        """Upload a folder with spin.toml, and wait until it serves."""
        target = ("--app-id", app.id) if app else ("--create-name", name)
        words = ("deploy", "--from", str(folder / "spin.toml"), "--variable", f"@{variables}")
        self._run((*words, *target, "--no-confirm"), f"deploy {name}", timeout_s=DEPLOY_S)

    def delete(self, app_id: str) -> None:
        self._run(("app", "delete", "--app-id", app_id, "--no-confirm"), "delete the app")

    def _run(self, words: Sequence[str], doing: str, timeout_s: float = ASK_S) -> str:
        account = ("--account-name", self.account) if self.account else ()
        return run(("aka", *words, *account), doing, timeout_s=timeout_s)


@dataclass(frozen=True, slots=True)
class Login:
    """Who pushes to a container registry; nobody where the user is empty."""

    user: str = ""
    password: str = field(default="", repr=False)


def push(reference: str, folder: Path, login: Login) -> None:
    """Push a folder with spin.toml to a container registry as Spin's kind of artifact."""
    if login.user:
        host = reference.partition("/")[0]
        words = ("registry", "login", "--username", login.user, "--password-stdin", host)
        run(words, f"log into {host}", text=login.password)
    manifest = str(folder / "spin.toml")
    run(
        ("registry", "push", "--from", manifest, reference),
        f"push {reference}",
        timeout_s=DEPLOY_S,
    )


def run(words: Sequence[str], doing: str, *, text: str = "", timeout_s: float = ASK_S) -> str:
    """Run `spin` and return what it said on stdout; `text` is its standard input."""
    program = shutil.which("spin")
    if program is None:
        raise KindError("The program 'spin' was not found.", "install Spin 4 and put it on PATH.")
    try:
        result = subprocess.run(
            [program, *words],
            input=text,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=timeout_s,
        )
    except subprocess.TimeoutExpired:
        # The error holds the command's input; it goes no further.
        raise KindError(
            f"`spin` did not {doing} within {timeout_s:.0f} s.", "look at it, then run up again."
        ) from None
    if result.returncode != 0:
        raise KindError(f"`spin` could not {doing}: {_reason(result.stderr)}.", _next_step(words))
    return result.stdout


def environment() -> dict[str, str]:
    """The environment that Spin gets."""
    return {
        name: value
        for name, value in os.environ.items()
        if name in _PASSED or name.startswith(_PASSED_PREFIXES)
    }


@contextmanager
def folder(manifest: str, component: Path, variables: Mapping[str, str]) -> Iterator[Path]:
    """A folder that only its owner may read: spin.toml, the component and variables.json."""
    with tempfile.TemporaryDirectory(prefix="nearfar-spin-") as made:
        at = Path(made)
        (at / "spin.toml").write_text(manifest, encoding="utf-8")
        shutil.copyfile(component, at / "edge.wasm")
        handle = os.open(at / "variables.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(dict(variables), file)
        yield at


def _json(said: str) -> Any:
    try:
        return json.loads(said)
    except ValueError:
        raise KindError(
            "`spin aka` answered something that is not JSON.",
            "update its plugin: spin plugins upgrade aka",
        ) from None


def _reason(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    return lines[-1].rstrip(".")[:300] if lines else "it gave no reason"


def _next_step(words: Sequence[str]) -> str:
    if words[0] == "registry":
        return "check the registry's name, user and password in the configuration."
    return "spin aka login, then run up again; `nearfar doctor --deploy` checks the rest."
