"""What one place saw: the ways from there, as a document that goes from machine to machine.

{"schema": "nearfar.roundtrip/1", "made_at", "nearfar", "vantages": [
  {"name", "edge": way, "container": way|null, "gpu": way|null, "edge_probe", "container_probe"}]}
"""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

from nearfar import __version__
from nearfar.errors import BadInput, Missing, NearfarError
from nearfar.placement.recording import now
from nearfar.placement.ways import Probed, Trip, Way

SCHEMA = "nearfar.roundtrip/1"
SSH_TIMEOUT_S = 600
_FETCH_TIMEOUT_S = 15


@dataclass(slots=True)
class Vantage:
    """One place and its ways. `gpu` is the way past the edge, straight to the GPU's server."""

    name: str
    edge: Way
    edge_probe: Probed = field(default_factory=Probed)
    container: Way | None = None
    container_probe: Probed = field(default_factory=Probed)
    gpu: Way | None = None


def document(vantages: Sequence[Vantage]) -> dict[str, Any]:
    """All vantages as one JSON object, every trip in it."""
    return {
        "schema": SCHEMA,
        "made_at": now(),
        "nearfar": __version__,
        "vantages": [asdict(each) for each in vantages],
    }


def of_document(said: Any, name: str, where: str) -> list[Vantage]:
    """The vantages of a document, under another name.

    Raises:
        BadInput: it is no such document.
    """
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        raise _wrong(where)
    try:
        found = [_vantage(each) for each in said["vantages"]]
    except (KeyError, TypeError, AttributeError):
        raise _wrong(where) from None
    for number, each in enumerate(found):
        each.name = name if len(found) == 1 else f"{name}/{each.name or number}"
    return found


def elsewhere(name: str, where: str, api_key: str, arguments: Sequence[str], remote: str) -> str:
    """The document of another place: measured there over ssh, or read from a file or an address.

    Raises:
        BadInput: `where` is none of these, or cannot be read.
        Missing: that machine cannot be reached, or measuring failed there.
    """
    parts = urlsplit(where)
    if parts.scheme == "ssh":
        return _over_ssh(name, where, api_key, arguments, remote)
    if parts.scheme in ("http", "https"):
        return _fetched(where)
    try:
        return Path(where).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise BadInput(
            f"--from {name}={where} cannot be read ({reason}).",
            "give ssh://[user@]host, a file, or the address of one.",
        ) from error


def last_json(text: str, where: str) -> Any:
    """The last line of a text as JSON: who logs in over ssh may be greeted first."""
    lines = [line for line in text.splitlines() if line.strip()]
    try:
        return json.loads(lines[-1])
    except (ValueError, IndexError):
        pass
    try:
        return json.loads(text)
    except ValueError:
        raise _wrong(where) from None


def _over_ssh(name: str, where: str, api_key: str, arguments: Sequence[str], remote: str) -> str:
    parts = urlsplit(where)
    host = parts.hostname or ""
    # A host that begins with a dash would be read as an option of ssh.
    if not host or host.startswith("-") or parts.path not in ("", "/") or parts.password:
        raise BadInput(f"--from {name}={where} names no host.", "give one like ssh://user@host")
    # The key goes over standard input: a command line can be read by every user over there.
    script = "IFS= read -r NEARFAR_API_KEY; export NEARFAR_API_KEY; exec "
    script += f"{remote} {shlex.join(['roundtrip', '--json', *arguments])}"
    argv = ["ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=15"]
    argv += ["-p", str(parts.port)] if parts.port else []
    argv += ["-l", parts.username] if parts.username else []
    try:
        done = subprocess.run(
            [*argv, host, script],
            input=f"{api_key}\n",
            capture_output=True,
            text=True,
            timeout=SSH_TIMEOUT_S,
            check=False,
        )
    except FileNotFoundError as error:
        raise Missing("There is no ssh on this machine.", "install it.") from error
    except subprocess.TimeoutExpired as error:
        raise Missing(
            f"{where} did not end within {SSH_TIMEOUT_S} s.", "try it by hand."
        ) from error
    if done.returncode != 0:
        last = [line for line in done.stderr.splitlines() if line.strip()][-2:]
        raise Missing(
            f"Measuring from {name} ({where}) failed: {'; '.join(last) or 'it said nothing'}",
            "nearfar has to be there: --remote-command says how it is called.",
        )
    return done.stdout


def _fetched(where: str) -> str:
    try:
        answer = httpx.get(where, timeout=_FETCH_TIMEOUT_S, follow_redirects=True)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise Missing(
            f"{where} does not answer ({type(error).__name__}).", "check its address."
        ) from error
    if not answer.is_success:
        raise NearfarError(f"{where} answered {answer.status_code}.", "check its address.")
    return answer.text


def _vantage(said: Mapping[str, Any]) -> Vantage:
    edge = _way(said["edge"])
    if edge is None:
        raise KeyError("edge")
    return Vantage(
        name=str(said["name"]),
        edge=edge,
        edge_probe=Probed(**said["edge_probe"]),
        container=_way(said.get("container")),
        container_probe=Probed(**said["container_probe"]),
        gpu=_way(said.get("gpu")),
    )


def _way(said: Mapping[str, Any] | None) -> Way | None:
    if said is None:
        return None
    return Way(**{**said, "trips": [Trip(**trip) for trip in said["trips"]]})


def _wrong(where: str) -> BadInput:
    return BadInput(
        f"{where} holds no result of nearfar roundtrip.", "make one with: nearfar roundtrip --json"
    )
