"""Alert rules as values; what to do about each stands in docs/runbooks.md, under its name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import pulumi

from nearfar_infra import names
from nearfar_infra.manifests import Manifest
from nearfar_infra.manifests.scaling import BEHIND

RUNBOOKS = "docs/runbooks.md"
Severity = Literal["critical", "warning"]


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule: it fires when the query gives anything for so long."""

    name: str
    query: str
    lasts: str
    severity: Severity
    summary: str

    @property
    def runbook(self) -> str:
        """Where it is written what to do; the heading is the alert's name."""
        return f"{RUNBOOKS}#{self.name.lower()}"

    def rule(self) -> Manifest:
        """The rule as Prometheus reads it."""
        return {
            "alert": self.name,
            "expr": self.query,
            "for": self.lasts,
            "labels": {"severity": self.severity},
            "annotations": {"summary": self.summary, "runbook_url": self.runbook},
        }


_TARGETS = f'namespace="{names.SERVING}"'
_VLLM = f'kube_deployment_status_replicas_available{{{_TARGETS}, deployment="vllm"}}'
_WANTED = f'kube_deployment_spec_replicas{{{_TARGETS}, deployment="vllm"}}'
_VOLUME = 'kubelet_volume_stats_available_bytes{namespace=~"nearfar-.*"}'
_OF_VOLUME = 'kubelet_volume_stats_capacity_bytes{namespace=~"nearfar-.*"}'

ALERTS = (
    Alert(
        "ModelServerMissing",
        f"{_VLLM} < {_WANTED}",
        "20m",
        "critical",
        "Fewer vLLM servers answer than should, for longer than a start takes.",
    ),
    Alert(
        "ModelServerRestarts",
        f"increase(kube_pod_container_status_restarts_total{{{_TARGETS},"
        ' container="vllm"}[1h]) > 2',
        "0m",
        "critical",
        "vLLM was started again more than twice in an hour.",
    ),
    Alert(
        "GpuNotAdvertised",
        f'(sum(kube_node_status_allocatable{{resource="nvidia_com_gpu"}}) or vector(0))'
        f" < sum({_WANTED})",
        "15m",
        "critical",
        "Nodes advertise fewer GPUs than vLLM servers need.",
    ),
    Alert(
        "GpuFault",
        "DCGM_FI_DEV_XID_ERRORS > 0",
        "1m",
        "warning",
        "The driver reported a fault of a GPU.",
    ),
    Alert(
        "GpuHot",
        "DCGM_FI_DEV_GPU_TEMP > 88",
        "10m",
        "warning",
        "A GPU is hotter than it should stay.",
    ),
    Alert(
        "FirstTokenSlow",
        "histogram_quantile(0.95, sum by (le)"
        " (rate(vllm:time_to_first_token_seconds_bucket[10m]))) > 5",
        "10m",
        "warning",
        "One request in twenty waits longer than 5 s for its first token.",
    ),
    Alert(
        "RequestsShed",
        'sum(rate(nearfar_gate_refusals_total{code="overloaded"}[10m]))'
        " / (sum(rate(nearfar_gate_refusals_total[10m]))"
        " + sum(rate(nearfar_gate_answers_total[10m]))) > 0.05",
        "10m",
        "warning",
        "More than one request in twenty is turned away because the model servers are full.",
    ),
    Alert(
        "EngineRefuses",
        "sum(rate(vllm:admission_rejections_total[10m])) > 0",
        "10m",
        "warning",
        "vLLM turns away what its gate let in: their bounds differ.",
    ),
    Alert(
        "GateWithoutRedis",
        "min(nearfar_gate_redis_up) == 0",
        "2m",
        "critical",
        "A gate has no Redis: limits hold for each gate alone, monthly budgets not at all.",
    ),
    Alert(
        "AnswersFail",
        f'sum(rate(traefik_service_requests_total{{service=~"{BEHIND}", code=~"5.."}}[10m]))'
        f' / sum(rate(traefik_service_requests_total{{service=~"{BEHIND}"}}[10m])) > 0.05',
        "10m",
        "critical",
        "More than one request in twenty ends in an error of the GPU half.",
    ),
    Alert(
        "CertificateEnds",
        "min(traefik_tls_certs_not_after) - time() < 14 * 86400",
        "1h",
        "warning",
        "A certificate ends in less than two weeks and was not renewed.",
    ),
    Alert(
        "VolumeFull",
        f"{_VOLUME} / {_OF_VOLUME} < 0.1",
        "10m",
        "warning",
        "A volume is more than nine tenths full.",
    ),
)


def rules(namespace: pulumi.Input[str]) -> Manifest:
    """The PrometheusRule that holds them all."""
    return {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {"name": "nearfar", "namespace": namespace, "labels": names.labels("alerts")},
        "spec": {"groups": [{"name": "nearfar", "rules": [alert.rule() for alert in ALERTS]}]},
    }
