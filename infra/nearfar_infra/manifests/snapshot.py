"""vLLM's snapshot: a plain server without a key on the loopback, and the gate in front of it.

The price: CRIU needs root and a privileged container, the image has to carry it, a snapshot fits
one machine only, and it takes as much of the volume as the GPU's and the process's memory.
"""

from __future__ import annotations

from typing import Any

from gpu_backend import command
from nearfar_infra import flows
from nearfar_infra.manifests import Manifest, containers, gate_source, model_files, vllm
from nearfar_infra.manifests.vllm import Server

FOLDER = "/snapshots"
INNER_PORT = flows.ENGINE_PORT
_FOR_THE_GATE = ("NEARFAR_GATE_MAX_RUNNING", "NEARFAR_GATE_MAX_WAITING")


def pod(server: Server) -> Manifest:
    """The pod of vllm.pod with vLLM behind the gate instead of around it."""
    found = vllm.pod(server)
    security: dict[str, Any] = {"seccompProfile": {"type": "Unconfined"}, "runAsUser": 0}
    return found | {
        "securityContext": security,
        "initContainers": [no_io_uring(server.image)],
        "containers": [engine(server), gate(server)],
    }


def engine(server: Server) -> Manifest:
    """vLLM, restored or started; it listens for this pod alone and asks for no key."""
    found = vllm.container(server)
    plain = server.serving.spec
    flags = command.flags(plain, host="127.0.0.1", port=INNER_PORT)
    name = f"{server.files.version}-{plain.serving_hash}"
    program = f"{gate_source.MOUNT}/serve_snapshot.py"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe", "ports", "lifecycle"):
        del found[probe]
    environment = {
        key: value for key, value in vllm.environment(server).items() if key not in _FOR_THE_GATE
    }
    return (
        found
        | {
            "command": ["python3", program, "--folder", f"{FOLDER}/{name}"],
            "args": ["--port", str(INNER_PORT), "--", *flags],
            "securityContext": {"privileged": True, "runAsUser": 0},
            "volumeMounts": [
                *vllm.mounts(server),
                containers.mount("model", FOLDER, sub="snapshots"),
            ],
        }
        | containers.env(environment | {"VLLM_SNAPSHOT_TIMEOUT_S": str(server.budget.load_s)})
    )


def gate(server: Server) -> Manifest:
    """The gate as a process of its own, in the same image: it has all that the gate imports."""
    libraries = f"{model_files.LIBRARIES}/{server.files.libraries_folder}"
    bounds = {name: vllm.environment(server)[name] for name in _FOR_THE_GATE}
    plain = bounds | {"PYTHONPATH": f"{gate_source.MOUNT}:{libraries}", "HOME": "/tmp"}  # noqa: S108
    secret = {name: key for name, key in vllm.secrets().items() if name != "VLLM_API_KEY"}
    secret["NEARFAR_GATE_API_KEY"] = vllm.secrets()["VLLM_API_KEY"]
    upstream = f"http://127.0.0.1:{INNER_PORT}"
    return (
        {
            "name": "gate",
            "image": server.image,
            "command": ["python3", "-m", "gpu_backend.gate", "--upstream", upstream],
            "args": ["--host", "0.0.0.0", "--port", str(vllm.PORT)],  # noqa: S104
            "ports": [{"name": "http", "containerPort": vllm.PORT}],
            "lifecycle": {"preStop": {"sleep": {"seconds": vllm.LEAVE_S}}},
            "securityContext": containers.container_security()
            | {"runAsNonRoot": True, "runAsUser": containers.USER},
            "volumeMounts": [
                containers.mount("model", model_files.LIBRARIES, sub="libraries", read_only=True),
                containers.mount("gate", gate_source.MOUNT, read_only=True),
                containers.mount("tmp", "/tmp"),  # noqa: S108
            ],
        }
        | vllm.probes(server.spec.served_name, server.budget)
        | containers.env(plain, secret)
        | containers.resources("500m", "256Mi", most_memory="1Gi")
    )


def no_io_uring(image: str) -> Manifest:
    """CRIU cannot save io_uring; a process of root is kept from it by 2 and by nothing less."""
    return {
        "name": "no-io-uring",
        "image": image,
        "command": ["sh", "-c", "echo 2 > /proc/sys/kernel/io_uring_disabled"],
        "securityContext": {"privileged": True, "runAsUser": 0},
        "resources": {"requests": {"cpu": "10m", "memory": "16Mi"}, "limits": {"memory": "64Mi"}},
    }
