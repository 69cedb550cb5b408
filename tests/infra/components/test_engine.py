"""vLLM as it is deployed: one test for each promise, over what the program declares."""

from __future__ import annotations

from typing import Any

import pulumi
import pytest

from gpu_backend import command
from infra.declared import Program, declare
from infra.given import DIGEST, settings, sources
from infra.schemas import check
from nearfar_infra import flows, names, policies
from nearfar_infra.components.engine import Engine, EngineArgs
from nearfar_infra.manifests import model_files
from nearfar_infra.manifests.start_up import StartUp
from nearfar_infra.settings import Settings

SNAPSHOT_IMAGE = f"registry.example/vllm-criu@{DIGEST}"
KINDS: dict[str, dict[str, str]] = {
    "volume": {},
    "stream": {"weights": "stream"},
    "several": {"weights": "stream", "replicas": "2", "gpuNodesMax": "2"},
    "scaled": {"weights": "stream", "autoscaleMax": "3", "gpuNodesMax": "3"},
    "snapshot": {"snapshot": "true", "snapshotImage": SNAPSHOT_IMAGE},
    "token": {"hfToken": "hf_canary", "imagePrePull": "true"},
}


def engine(chosen: Settings, *, mirror: str | None = None, otlp: str | None = None) -> Program:
    """What the component declares for these settings."""

    def build() -> None:
        args = EngineArgs(
            namespace=names.SERVING,
            sources=sources(mirror),
            serving=chosen.serving,
            plan=chosen.cluster.gpu.plan,
            upstream_key=pulumi.Output.secret("canary-upstream"),
            gate_secret=pulumi.Output.secret("canary-gate"),
            redis_url=pulumi.Output.secret("redis://gate:canary@redis:6379/0"),
            otlp_endpoint=otlp,
            gpu_ready="ready",
        )
        Engine("engine", args)

    return declare(build)


@pytest.fixture(scope="module")
def programs() -> dict[str, Program]:
    """Every kind, declared once."""
    return {kind: engine(settings(**changed)) for kind, changed in KINDS.items()}


def pod(program: Program) -> dict[str, Any]:
    found: dict[str, Any] = program.one("Deployment", "vllm").inputs["spec"]["template"]["spec"]
    return found


def container(program: Program, name: str = "vllm") -> dict[str, Any]:
    found: dict[str, Any] = next(c for c in pod(program)["containers"] if c["name"] == name)
    return found


def variables(of: dict[str, Any]) -> dict[str, Any]:
    return {entry["name"]: entry.get("value", entry.get("valueFrom")) for entry in of["env"]}


def flag(args: list[str], name: str) -> str:
    return args[args.index(name) + 1]


@pytest.mark.parametrize("kind", KINDS)
def test_every_object_is_one_that_the_api_server_knows(
    programs: dict[str, Program], kind: str
) -> None:
    for manifest in programs[kind].manifests:
        check(manifest)


def test_the_image_is_named_by_its_digest(programs: dict[str, Program]) -> None:
    for kind, program in programs.items():
        images = [c["image"] for c in pod(program)["containers"]]
        assert all(image.endswith(f"@{DIGEST}") for image in images), kind


def test_the_flags_are_those_of_the_same_specification_with_its_gate(
    programs: dict[str, Program],
) -> None:
    spec = settings().serving.spec.gated()
    args = container(programs["volume"])["args"]
    expected = command.flags(spec, host="0.0.0.0", port=flows.MODEL_PORT)  # noqa: S104
    assert list(expected) == args[: len(expected)]
    assert "gpu_backend.gate.Gate" == flag(args, "--middleware")
    assert "--enable-per-request-metrics" in args
    assert (spec.model, spec.revision) == (flag(args, "--model"), flag(args, "--revision"))


def test_the_engines_queue_is_the_edges_admission(programs: dict[str, Program]) -> None:
    """vLLM and its gate count the same places, and the edge learns them from the gate."""
    one = container(programs["volume"])
    running, waiting = (
        int(variables(one)[f"NEARFAR_GATE_MAX_{name}"]) for name in ("RUNNING", "WAITING")
    )
    assert running == int(flag(one["args"], "--max-num-seqs"))
    assert running + waiting == int(flag(one["args"], "--max-num-queued-reqs"))


@pytest.mark.fault(28)
def test_no_service_of_the_namespace_becomes_a_variable_of_the_pod(
    programs: dict[str, Program],
) -> None:
    """A Service called vllm would set VLLM_PORT (field fault 28); ours is not called so either."""
    for kind, program in programs.items():
        for found in program.all("Deployment") + program.all("DaemonSet"):
            assert found.inputs["spec"]["template"]["spec"]["enableServiceLinks"] is False, kind
        for found in program.all("Job"):
            assert found.inputs["spec"]["template"]["spec"]["enableServiceLinks"] is False, kind
        assert "vllm" not in {service.called for service in program.all("Service")}


@pytest.mark.fault(23)
def test_one_gpu_means_that_the_old_pod_goes_first(programs: dict[str, Program]) -> None:
    """Else the new one waits for a GPU that the old one holds (field fault 23)."""
    for kind in ("volume", "stream", "snapshot"):
        strategy = programs[kind].one("Deployment", "vllm").inputs["spec"]["strategy"]
        assert {"type": "Recreate"} == strategy
    for kind in ("several", "scaled"):
        strategy = programs[kind].one("Deployment", "vllm").inputs["spec"]["strategy"]
        assert (0, 1) == tuple(strategy["rollingUpdate"][k] for k in ("maxSurge", "maxUnavailable"))


@pytest.mark.fault(23)
def test_everything_on_the_gpu_pool_tolerates_its_taint(programs: dict[str, Program]) -> None:
    """Whatever value the taint has, and by the pool's own label."""
    tolerated = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    assert tolerated["key"] == names.GPU_TAINT["key"]
    assert tolerated["effect"] == names.GPU_TAINT["effect"]
    program = programs["token"]
    for found in (program.one("Deployment", "vllm"), program.one("Job"), program.one("DaemonSet")):
        spec = found.inputs["spec"]["template"]["spec"]
        assert [tolerated] == spec["tolerations"], found.kind
        assert {names.POOL_LABEL: names.GPU_POOL} == spec["nodeSelector"]


def test_only_vllm_asks_for_a_gpu(programs: dict[str, Program]) -> None:
    """A Job that took one would wait for ever beside a vLLM that holds the only one."""
    program = programs["token"]
    assert "1" == container(program)["resources"]["limits"][names.GPU_RESOURCE]
    for found in (program.one("Job"), program.one("DaemonSet")):
        spec = found.inputs["spec"]["template"]["spec"]
        asked = [one["resources"] for one in spec["containers"] + spec.get("initContainers", [])]
        assert names.GPU_RESOURCE not in str(asked), found.kind


@pytest.mark.fault(24)
@pytest.mark.parametrize("gib", [1, 14, 40, 140])
@pytest.mark.parametrize("streamed", [False, True])
def test_whoever_waits_longer_waits_for_whoever_waits_shorter(gib: int, streamed: bool) -> None:
    """Probe < rollout < engine, and all above the worst load (field fault 24)."""
    budget = StartUp(gib << 30, streamed=streamed)
    worst_s = (gib << 30) / 60e6
    assert worst_s < budget.probe_failures * 10
    assert budget.load_s <= budget.probe_failures * 10 < budget.progress_s < budget.await_s
    assert 600 < budget.progress_s, "the Deployment's own default would end a slow load"


@pytest.mark.fault(24)
def test_the_budget_grows_with_the_model(programs: dict[str, Program]) -> None:
    small, large = StartUp(1 << 30), StartUp(140 << 30)
    assert 600 > small.load_s
    assert large.load_s > 2400 > small.load_s
    found = programs["volume"].one("Deployment", "vllm").inputs["spec"]
    budget = StartUp(settings().serving.weight_bytes)
    assert budget.progress_s == found["progressDeadlineSeconds"]
    probe = found["template"]["spec"]["containers"][0]["startupProbe"]
    assert budget.probe_failures == probe["failureThreshold"]


@pytest.mark.fault(24)
def test_started_is_who_has_answered_a_token_and_ready_who_is_alive(
    programs: dict[str, Program],
) -> None:
    """/health answers before anything was computed, so the first token is asked for."""
    one = container(programs["volume"])
    assert "/opt/nearfar/ask_once.py" in one["startupProbe"]["exec"]["command"]
    for name in ("readinessProbe", "livenessProbe"):
        assert {"path": "/health", "port": "http"} == one[name]["httpGet"]
    patience = {n: one[n]["periodSeconds"] * one[n]["failureThreshold"] for n in PROBES}
    assert patience["readinessProbe"] < patience["livenessProbe"] < patience["startupProbe"]


PROBES = ("startupProbe", "readinessProbe", "livenessProbe")


def test_the_container_has_no_privilege_and_a_read_only_root(programs: dict[str, Program]) -> None:
    for kind in ("volume", "stream", "several", "token"):
        spec = pod(programs[kind])
        security = spec["securityContext"]
        assert security["runAsNonRoot"] is True
        assert 2000 == security["runAsUser"]
        assert {"type": "RuntimeDefault"} == security["seccompProfile"]
        for one in spec["containers"] + spec.get("initContainers", []):
            context = one["securityContext"]
            assert context["readOnlyRootFilesystem"] is True
            assert context["allowPrivilegeEscalation"] is False
            assert ["ALL"] == context["capabilities"]["drop"]
        assert spec["automountServiceAccountToken"] is False


def test_whatever_is_written_has_a_volume_of_its_own(programs: dict[str, Program]) -> None:
    one = container(programs["volume"])
    writable = {m["mountPath"] for m in one["volumeMounts"] if not m.get("readOnly")}
    assert {"/cache", "/dev/shm", "/tmp"} == writable
    given = variables(one)
    for name in (
        "HOME",
        "HF_MODULES_CACHE",
        "XDG_CACHE_HOME",
        "VLLM_CACHE_ROOT",
        "TRITON_CACHE_DIR",
    ):
        assert any(given[name].startswith(path) for path in writable), name


def test_shared_memory_is_memory_with_a_bound(programs: dict[str, Program]) -> None:
    volumes = {volume["name"]: volume for volume in pod(programs["volume"])["volumes"]}
    assert {"medium": "Memory", "sizeLimit": "2Gi"} == volumes["shm"]["emptyDir"]


def test_weights_come_once_onto_a_volume_and_serving_needs_no_way_out(
    programs: dict[str, Program],
) -> None:
    program = programs["volume"]
    job = program.one("Job").inputs["spec"]["template"]
    spec = settings().serving.spec
    (fetch,) = job["spec"]["containers"]
    assert (spec.model, spec.revision) == (
        flag(fetch["command"], "--model"),
        flag(fetch["command"], "--revision"),
    )
    served = program.one("Deployment", "vllm").inputs["spec"]["template"]
    assert policies.FETCHES.items() <= job["metadata"]["labels"].items()
    assert not policies.FETCHES.items() <= served["metadata"]["labels"].items()
    assert "1" == variables(container(program))["HF_HUB_OFFLINE"]
    assert "initContainers" not in served["spec"]


def test_the_job_and_vllm_share_the_node_that_has_the_volume(programs: dict[str, Program]) -> None:
    """One volume is attached to one node: a Job elsewhere would wait until vLLM ends."""
    program = programs["volume"]
    for found in (program.one("Job"), program.one("Deployment", "vllm")):
        template = found.inputs["spec"]["template"]
        (term,) = template["spec"]["affinity"]["podAffinity"][
            "requiredDuringSchedulingIgnoredDuringExecution"
        ]
        assert "kubernetes.io/hostname" == term["topologyKey"]
        wanted = term["labelSelector"]["matchLabels"]
        # The pod matches its own term, so that the first one finds a place at all.
        assert wanted.items() <= template["metadata"]["labels"].items()


def test_another_model_is_another_job_and_nothing_else_is() -> None:
    """Names carry a hash over what decides on the files, so nothing is fetched twice."""
    one, other = settings(), settings(maxRunning="8")
    first, second = engine(one).one("Job").called, engine(other).one("Job").called
    assert first == second, "how many run at once changes nothing on the volume"
    moved = settings(
        model="Qwen/Qwen2.5-7B-Instruct",
        modelRevision="b" * 40,
        servedName="qwen",
        modelConfig="../gpu-backend/gpu_backend/models/qwen2.5-7b-instruct.json",
    )
    assert first != engine(moved).one("Job").called


def test_a_job_whose_image_never_comes_ends_by_itself(programs: dict[str, Program]) -> None:
    """The engine starts its own patience anew at every event of a Job."""
    budget = StartUp(settings().serving.weight_bytes)
    spec = programs["volume"].one("Job").inputs["spec"]
    assert budget.fetch_s == spec["activeDeadlineSeconds"]
    assert settings().serving.weight_bytes / 15e6 < budget.fetch_s < 3600


def test_the_volume_has_the_chosen_class_and_size() -> None:
    program = engine(settings(storageClass="linode-block-storage-retain", modelVolumeGib="80"))
    spec = program.one("PersistentVolumeClaim", "model").inputs["spec"]
    assert "linode-block-storage-retain" == spec["storageClassName"]
    assert "80Gi" == spec["resources"]["requests"]["storage"]


def test_the_volume_of_the_smallest_settings_holds_two_revisions_and_a_cache() -> None:
    serving = settings().serving
    assert serving.model_volume_gib > 2 * serving.weight_bytes / 2**30 + 5


def test_what_vllm_compiles_stays_on_the_volume(programs: dict[str, Program]) -> None:
    mounts = {m["mountPath"]: m for m in container(programs["volume"])["volumeMounts"]}
    assert ("model", "cache") == (mounts["/cache"]["name"], mounts["/cache"]["subPath"])
    assert mounts["/weights"]["readOnly"] is True
    assert mounts["/libraries"]["readOnly"] is True


def test_streamed_weights_are_fetched_by_the_pod_itself(programs: dict[str, Program]) -> None:
    program = programs["stream"]
    assert not program.all("Job")
    assert not program.all("PersistentVolumeClaim")
    (fetch,) = pod(program)["initContainers"]
    assert "--model" in fetch["command"]
    assert "runai_streamer" == flag(container(program)["args"], "--load-format")
    labels = program.one("Deployment", "vllm").inputs["spec"]["template"]["metadata"]["labels"]
    assert policies.FETCHES.items() <= labels.items()
    node = next(v for v in pod(program)["volumes"] if v["name"] == "node")
    size_gib = int(node["emptyDir"]["sizeLimit"].removesuffix("Gi"))
    assert size_gib > settings().serving.weight_bytes / 2**30 + 5


def test_the_token_of_the_hub_is_optional_and_only_for_who_fetches(
    programs: dict[str, Program],
) -> None:
    assert not [s for s in programs["volume"].all("Secret") if s.called == "model-hub"]
    program = programs["token"]
    secret = program.one("Secret", "model-hub")
    assert "hf_canary" == secret.inputs["stringData"]["token"]
    assert "stringData" in secret.secret
    (fetch,) = program.one("Job").inputs["spec"]["template"]["spec"]["containers"]
    assert {"secretKeyRef": {"name": "model-hub", "key": "token"}} == variables(fetch)["HF_TOKEN"]
    assert "HF_TOKEN" not in variables(container(program))


def test_secrets_reach_the_pod_by_reference_and_stand_nowhere_in_clear(
    programs: dict[str, Program],
) -> None:
    for kind, program in programs.items():
        for found in program.resources:
            if found.kind != "Secret":
                assert "canary" not in str(found.inputs), (kind, found.name)
    for name in ("VLLM_API_KEY", "NEARFAR_GATE_SECRET", "NEARFAR_GATE_REDIS"):
        assert (
            "model-server" == variables(container(programs["volume"]))[name]["secretKeyRef"]["name"]
        )
    assert "stringData" in programs["volume"].one("Secret", "model-server").secret


def test_a_new_secret_starts_the_pods_anew() -> None:
    def annotation(key: str) -> str:
        chosen = settings()
        args = EngineArgs(
            names.SERVING,
            sources(),
            chosen.serving,
            chosen.cluster.gpu.plan,
            key,
            "g",
            "r",
            None,
            "y",
        )
        found = declare(lambda: Engine("engine", args)).one("Deployment", "vllm")
        meta = found.inputs["spec"]["template"]["metadata"]
        return str(meta["annotations"]["nearfar.dev/secrets"])

    assert annotation("one") != annotation("two")
    assert annotation("one") == annotation("one")


def test_the_gate_is_mounted_under_a_name_that_carries_its_hash(
    programs: dict[str, Program],
) -> None:
    program = programs["volume"]
    (gate,) = [c for c in program.all("ConfigMap") if c.called.startswith("gate-")]
    volume = next(v for v in pod(program)["volumes"] if v["name"] == "gate")
    assert gate.called == volume["configMap"]["name"]
    assert {item["key"] for item in volume["configMap"]["items"]} == gate.inputs["data"].keys()
    assert gate.inputs["immutable"] is True
    path = variables(container(program))["PYTHONPATH"].split(":")
    assert "/opt/nearfar" == path[0]
    assert path[1].startswith(model_files.LIBRARIES)


def test_priority_and_disruption_budget_protect_without_blocking(
    programs: dict[str, Program],
) -> None:
    program = programs["volume"]
    first = program.one("PriorityClass")
    assert first.called == pod(program)["priorityClassName"]
    assert "Never" == first.inputs["preemptionPolicy"]
    # One server, and a budget that still lets a node be recycled.
    assert 1 == program.one("PodDisruptionBudget").inputs["spec"]["maxUnavailable"]


def test_running_answers_get_time_to_end(programs: dict[str, Program]) -> None:
    one, spec = container(programs["volume"]), pod(programs["volume"])
    leave_s = one["lifecycle"]["preStop"]["sleep"]["seconds"]
    drain_s = int(flag(one["args"], "--shutdown-timeout"))
    assert spec["terminationGracePeriodSeconds"] > leave_s + drain_s


def test_spans_go_to_the_collector_inside_by_its_protocol() -> None:
    program = engine(settings(), otlp="http://collector.nearfar-monitoring.svc:4317")
    one = container(program)
    assert "http://collector.nearfar-monitoring.svc:4317" == flag(
        one["args"], "--otlp-traces-endpoint"
    )
    assert "grpc" == variables(one)["OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"]
    assert "--otlp-traces-endpoint" not in container(engine(settings()))["args"]


def test_several_servers_have_a_router_in_front_and_one_has_none(
    programs: dict[str, Program],
) -> None:
    for kind in ("several", "scaled"):
        service = programs[kind].one("Service", flows.MODEL_SERVICE).inputs["spec"]
        assert names.selector("router") == service["selector"]
        assert programs[kind].one("Deployment", "router")
    service = programs["volume"].one("Service", flows.MODEL_SERVICE).inputs["spec"]
    assert names.selector("vllm") == service["selector"]
    assert 1 == len(programs["volume"].all("Deployment"))


def test_the_image_is_pulled_beforehand_only_where_asked_for(programs: dict[str, Program]) -> None:
    assert not programs["volume"].all("DaemonSet")
    spec = programs["token"].one("DaemonSet").inputs["spec"]["template"]["spec"]
    assert container(programs["token"])["image"] == spec["initContainers"][0]["image"]
    assert ["true"] == spec["initContainers"][0]["command"]


def test_a_snapshot_wants_a_plain_server_with_the_gate_in_front(
    programs: dict[str, Program],
) -> None:
    program = programs["snapshot"]
    inner, gate = container(program), container(program, "gate")
    assert SNAPSHOT_IMAGE == inner["image"] == gate["image"]
    assert "--middleware" not in inner["args"]
    assert "127.0.0.1" == flag(inner["args"], "--host")
    assert not {"VLLM_API_KEY", "NEARFAR_GATE_SECRET"} & variables(inner).keys()
    assert [{"name": "http", "containerPort": flows.MODEL_PORT}] == gate["ports"]
    assert "ports" not in inner
    assert f"http://127.0.0.1:{flows.ENGINE_PORT}" == flag(gate["command"], "--upstream")
    guarded = ("NEARFAR_GATE_API_KEY", "NEARFAR_GATE_SECRET", "NEARFAR_GATE_REDIS")
    assert set(guarded) <= variables(gate).keys()
    assert "startupProbe" in gate


def test_only_the_snapshots_own_container_is_privileged(programs: dict[str, Program]) -> None:
    inner, gate = container(programs["snapshot"]), container(programs["snapshot"], "gate")
    assert inner["securityContext"]["privileged"] is True
    assert gate["securityContext"]["runAsNonRoot"] is True
    assert ["ALL"] == gate["securityContext"]["capabilities"]["drop"]


def test_a_mirror_is_asked_for_everything(programs: dict[str, Program]) -> None:
    program = engine(settings(imagePrePull="true"), mirror="https://mirror.example/all")
    for found in (program.one("Deployment", "vllm"), program.one("Job"), program.one("DaemonSet")):
        spec = found.inputs["spec"]["template"]["spec"]
        for one in spec["containers"] + spec.get("initContainers", []):
            assert one["image"].startswith("mirror.example/all/"), one["name"]
    (fetch,) = program.one("Job").inputs["spec"]["template"]["spec"]["containers"]
    assert "https://mirror.example/all/hub" == variables(fetch)["HF_ENDPOINT"]
    assert "https://mirror.example/all/python/simple" == variables(fetch)["PIP_INDEX_URL"]


def test_the_pod_fits_its_node() -> None:
    """Requests leave room for what every node runs; limits for what the kernel needs."""
    chosen = settings()
    plan, one = chosen.cluster.gpu.plan, container(engine(chosen))
    asked = one["resources"]["requests"]
    assert plan.vcpus * 1000 * 0.75 > int(asked["cpu"].removesuffix("m"))
    most = int(one["resources"]["limits"]["memory"].removesuffix("Gi"))
    assert int(asked["memory"].removesuffix("Gi")) <= most < plan.memory_gib
