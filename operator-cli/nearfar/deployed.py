"""What a deployment told: the outputs of a Pulumi stack, and its configuration.

The Pulumi CLI is asked where it is installed. Without it the file of a local back end is read, in
which secrets are encrypted; what is secret has to be given then.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from nearfar.checkout import Checkout
from nearfar.errors import BadInput, Missing

PROJECT = "nearfar"
# The stack that `pulumi stack select` chose.
SELECTED = "."
TIMEOUT_S = 60


@dataclass(frozen=True, slots=True)
class Deployed:
    """The edge of a stack; `api_key` and `key_secret` are empty where they could not be read."""

    stack: str
    endpoint: str
    model: str
    api_key: str = field(default="", repr=False)
    key_secret: str = field(default="", repr=False)
    cluster_id: str = ""
    region: str = ""


def read(checkout: Checkout, stack: str) -> Deployed:
    """Return what a stack's last `up` told.

    Raises:
        Missing: there is no such stack, or it has no edge.
        BadInput: its secrets cannot be decrypted.
    """
    found = outputs(checkout, stack)
    if not isinstance(found.get("chatUrl"), str):
        raise Missing(
            f"The stack {stack} tells no address of an edge.",
            f"deploy it: just deploy --stack {stack}",
        )
    texts = {name: value for name, value in found.items() if isinstance(value, str)}
    return Deployed(
        stack,
        texts["chatUrl"],
        texts.get("model", ""),
        texts.get("firstApiKey", ""),
        texts.get("keySecret", ""),
        str(found.get("clusterId", "")),
        texts.get("region", ""),
    )


def outputs(checkout: Checkout, stack: str) -> Mapping[str, Any]:
    """The outputs of a stack by name; without the CLI, those that are no secrets."""
    if shutil.which("pulumi") is not None:
        words = ("stack", "output", "--json", "--show-secrets")
        found: Mapping[str, Any] = _pulumi(checkout, stack, words)
        return found
    return _from_file(checkout, stack)


def configuration(checkout: Checkout, stack: str) -> dict[str, str | None]:
    """The configuration of a stack: key → text, None where it is secret. Nothing is decrypted."""
    document: Mapping[str, Mapping[str, Any]] = _pulumi(checkout, stack, ("config", "--json"))
    return {
        key.removeprefix(f"{PROJECT}:"): None if entry.get("secret") else str(entry.get("value"))
        for key, entry in document.items()
        if key.startswith(f"{PROJECT}:")
    }


def _pulumi(checkout: Checkout, stack: str, words: Sequence[str]) -> Any:
    chosen = () if stack == SELECTED else ("--stack", stack)
    argv = ["pulumi", *words, *chosen, "--non-interactive", "--cwd", str(checkout.root / "infra")]
    try:
        result = subprocess.run(
            argv,
            env={**os.environ, **_back_end(checkout)},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
    except FileNotFoundError as error:
        raise Missing("The program 'pulumi' was not found.", "install the Pulumi CLI.") from error
    except subprocess.TimeoutExpired as error:
        raise Missing("pulumi did not answer in time.", "check its back end.") from error
    if result.returncode != 0:
        raise _refused(stack, result.stderr)
    return json.loads(result.stdout)


def _refused(stack: str, stderr: str) -> BadInput | Missing:
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    told = next((line for line in lines if line.startswith("error:")), "it gave no reason")
    why = told.removeprefix("error:").strip().rstrip(".")
    if "passphrase" in why:
        return BadInput(
            f"The secrets of the stack {stack} cannot be read: {why}.",
            "set PULUMI_CONFIG_PASSPHRASE, or log in with `pulumi login`.",
        )
    return Missing(f"The stack {stack} cannot be read: {why}.", "see `pulumi stack ls`.")


def _back_end(checkout: Checkout) -> dict[str, str]:
    """Where the state is, if nobody says: the same place as `just deploy` uses."""
    home = Path(os.environ.get("PULUMI_HOME", Path.home() / ".pulumi"))
    chosen = {"PULUMI_BACKEND_URL", "PULUMI_ACCESS_TOKEN"} & set(os.environ)
    if chosen or (home / "credentials.json").exists():
        return {}
    return {"PULUMI_BACKEND_URL": (checkout.private / "state").as_uri()}


def _from_file(checkout: Checkout, stack: str) -> Mapping[str, Any]:
    """Read the state of a local back end: what is a plain text there is no secret."""
    url = os.environ.get("PULUMI_BACKEND_URL") or _back_end(checkout).get("PULUMI_BACKEND_URL", "")
    parts = urlsplit(url)
    path = Path(unquote(parts.path)) / ".pulumi" / "stacks" / PROJECT / f"{stack}.json"
    if parts.scheme != "file" or not path.exists():
        raise Missing(
            f"The stack {stack} cannot be read: the program 'pulumi' was not found.",
            "install the Pulumi CLI, or use --endpoint and --api-key.",
        )
    try:
        resources = json.loads(path.read_text("utf-8"))["checkpoint"]["latest"]["resources"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise Missing(f"{path} is no state of Pulumi.", "run `just deploy` again.") from error
    of_stack = [item for item in resources if item.get("type") == "pulumi:pulumi:Stack"]
    found: Mapping[str, Any] = of_stack[0].get("outputs", {}) if of_stack else {}
    return found
