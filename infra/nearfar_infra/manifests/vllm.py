"""vLLM's Deployment from the same ServingSpec that runs on a developer's machine."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi

from gpu_backend import command
from gpu_backend.spec import ServingSpec
from nearfar_infra import flows, names
from nearfar_infra.manifests import Manifest, containers, gate_source, model_files
from nearfar_infra.manifests.model_files import Files
from nearfar_infra.manifests.start_up import PROBE_EVERY_S, StartUp
from nearfar_infra.plans import Plan
from nearfar_infra.settings import ServingSettings

DEPLOYMENT = "vllm"
SECRET = "model-server"  # noqa: S105 - its name
PRIORITY = "nearfar-serving"
PORT = flows.MODEL_PORT
# How long answers that run may go on when a pod has to go.
DRAIN_S = 60
# Endpoints learn that a pod goes a moment after it does; new requests still come until then.
LEAVE_S = 5
# One GPU a process: little is shared, but vLLM's processes hand over through it.
SHARED_MEMORY = "2Gi"


@dataclass(frozen=True, slots=True)
class Server:
    """All that the Deployment is made of. `secrets_version` changes when a secret does."""

    namespace: pulumi.Input[str]
    image: str
    serving: ServingSettings
    plan: Plan
    gate_config: str
    files: Files
    secrets_version: pulumi.Input[str]
    otlp_endpoint: pulumi.Input[str] | None = None

    @property
    def spec(self) -> ServingSpec:
        """The specification as it is served here: with its gate."""
        return self.serving.spec.gated()

    @property
    def on_volume(self) -> bool:
        """Whether weights and compile cache outlive the pod."""
        return self.serving.weights == "volume"

    @property
    def budget(self) -> StartUp:
        """How long a start may take."""
        return self.files.budget


def deployment(server: Server) -> Manifest:
    """The Deployment. With one GPU there is no room for a second pod: the old one goes first."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": DEPLOYMENT,
            "namespace": server.namespace,
            "labels": names.labels("vllm"),
        },
        "spec": {
            "replicas": server.serving.replicas,
            "strategy": strategy(server.serving),
            "progressDeadlineSeconds": server.budget.progress_s,
            "revisionHistoryLimit": 3,
            "selector": {"matchLabels": names.selector("vllm")},
            "template": {
                "metadata": {
                    "labels": pod_labels(server),
                    "annotations": {"nearfar.dev/secrets": server.secrets_version},
                },
                "spec": pod(server),
            },
        },
    }


def strategy(serving: ServingSettings) -> Manifest:
    """No surge anywhere: a surging pod would wait for a GPU that the old one holds for ever."""
    if max(serving.replicas, serving.autoscale_max) == 1:
        return {"type": "Recreate"}
    return {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1}}


def pod_labels(server: Server) -> dict[str, str]:
    """Labels of the pods; those that fetch for themselves may reach the hub."""
    chosen = names.labels("vllm")
    return chosen | (model_files.USES_VOLUME if server.on_volume else model_files.FETCHES)


def pod(server: Server) -> Manifest:
    """The pod: vLLM with the gate in it."""
    found = containers.pod_basics() | {
        "nodeSelector": names.on_pool(names.GPU_POOL),
        "tolerations": names.gpu_tolerations(),
        "priorityClassName": PRIORITY,
        "terminationGracePeriodSeconds": DRAIN_S + LEAVE_S + 25,
        "securityContext": containers.pod_security(),
        "containers": [container(server)],
        "volumes": volumes(server),
    }
    if server.on_volume:
        found["affinity"] = model_files.beside_the_volume()
    else:
        mounts = [containers.mount("node", model_files.VOLUME)]
        fetch = model_files.container(server.files, model_files.VOLUME, mounts)
        found["initContainers"] = [fetch]
    return found


def container(server: Server) -> Manifest:
    """vLLM itself, started as a module: that works for the wheel and the image alike."""
    cpu, memory, most_memory = share(server.plan)
    return (
        {
            "name": "vllm",
            "image": server.image,
            "command": ["python3", "-m", command.MODULE],
            "args": arguments(server),
            "ports": [{"name": "http", "containerPort": PORT}],
            "securityContext": containers.container_security(),
            "volumeMounts": mounts(server),
            "lifecycle": {"preStop": {"sleep": {"seconds": LEAVE_S}}},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }
        | probes(server.spec.served_name, server.budget)
        | containers.env(environment(server), secrets())
        | containers.resources(cpu, memory, gpus=server.plan.gpus, most_memory=most_memory)
    )


def share(plan: Plan) -> tuple[str, str, str]:
    """Processor and memory asked for, and the most memory: the node's, less what others need."""
    return (
        f"{plan.vcpus * 500}m",
        f"{plan.memory_gib * 6 // 10}Gi",
        f"{plan.memory_gib * 8 // 10}Gi",
    )


def arguments(server: Server) -> list[pulumi.Input[str]]:
    """vLLM's flags: the specification's, and what only a cluster has."""
    found: list[pulumi.Input[str]] = [*command.flags(server.spec, host="0.0.0.0", port=PORT)]  # noqa: S104
    found += ["--shutdown-timeout", str(DRAIN_S)]
    if not server.on_volume:
        found += ["--load-format", "runai_streamer"]
    if server.otlp_endpoint is not None:
        found += ["--otlp-traces-endpoint", server.otlp_endpoint]
    return found


def environment(server: Server) -> dict[str, str]:
    """Plain variables. Nothing is downloaded while serving: what is needed is there."""
    libraries = f"{model_files.LIBRARIES}/{server.files.libraries_folder}"
    cache = model_files.CACHE
    found = command.environment(server.spec) | {
        "PYTHONPATH": f"{gate_source.MOUNT}:{libraries}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "HOME": "/tmp",  # noqa: S108 - the pod's own
        "HF_HOME": model_files.WEIGHTS,
        "HF_MODULES_CACHE": "/tmp/hf-modules",  # noqa: S108
        "HF_HUB_OFFLINE": "1",
        "XDG_CACHE_HOME": cache,
        "VLLM_CACHE_ROOT": f"{cache}/vllm",
        "TRITON_CACHE_DIR": f"{cache}/triton",
        "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
        "FLASHINFER_WORKSPACE_BASE": cache,
    }
    if server.otlp_endpoint is not None:
        found |= {
            "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "grpc",
            "OTEL_SERVICE_NAME": "vllm",
        }
    return found


def secrets() -> dict[str, tuple[str, str]]:
    """Variables from the Secret."""
    return {
        "VLLM_API_KEY": (SECRET, "upstream-key"),
        "NEARFAR_GATE_SECRET": (SECRET, "gate-secret"),
        "NEARFAR_GATE_REDIS": (SECRET, "gate-redis"),
    }


def probes(served_name: str, budget: StartUp) -> Manifest:
    """Started is who has answered one token; ready and alive is whose engine says so.

    vLLM answers /health before it has computed anything, so the first token is asked for once.
    """
    health = {"httpGet": {"path": "/health", "port": "http"}}
    ask = ["python3", f"{gate_source.MOUNT}/ask_once.py", served_name, "--port", str(PORT)]
    return {
        "startupProbe": {
            "exec": {"command": ask},
            "periodSeconds": PROBE_EVERY_S,
            "timeoutSeconds": 25,
            "failureThreshold": budget.probe_failures,
        },
        "readinessProbe": health | {"periodSeconds": 5, "timeoutSeconds": 4, "failureThreshold": 2},
        "livenessProbe": health
        | {"periodSeconds": 15, "timeoutSeconds": 10, "failureThreshold": 8},
    }


def mounts(server: Server) -> list[Manifest]:
    """Weights and libraries are read-only; what vLLM compiles and its scratch files are not."""
    root = "model" if server.on_volume else "node"
    return [
        containers.mount(root, model_files.WEIGHTS, sub="weights", read_only=True),
        containers.mount(root, model_files.LIBRARIES, sub="libraries", read_only=True),
        containers.mount(root, model_files.CACHE, sub="cache"),
        containers.mount("gate", gate_source.MOUNT, read_only=True),
        containers.mount("shm", "/dev/shm"),  # noqa: S108
        containers.mount("tmp", "/tmp"),  # noqa: S108
    ]


def volumes(server: Server) -> list[Manifest]:
    """The volumes behind the mounts."""
    found = [
        gate_source.volume(server.gate_config),
        containers.scratch("shm", SHARED_MEMORY, memory=True),
        containers.scratch("tmp", "4Gi"),
    ]
    if server.on_volume:
        claim = {"claimName": model_files.CLAIM}
        return [{"name": "model", "persistentVolumeClaim": claim}, *found]
    size = f"{server.files.budget.weight_bytes * 5 // 4 // 2**30 + 10}Gi"
    return [containers.scratch("node", size), *found, *model_files.volumes(server.files)]
