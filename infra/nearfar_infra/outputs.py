"""What a deployment tells: the names are those of `pulumi stack output` and of `--stack`."""

from __future__ import annotations

from dataclasses import dataclass

import pulumi


@dataclass(frozen=True, slots=True)
class Outputs:
    """Addresses, the first API key, and the commands to try next. Secrets are marked as such."""

    chat_url: pulumi.Output[str]
    gpu_url: pulumi.Output[str]
    model: str
    first_api_key: pulumi.Output[str]
    key_secret: pulumi.Output[str]
    kubeconfig: pulumi.Output[str]
    cluster_id: pulumi.Output[str]
    dashboards: pulumi.Output[str]
    grafana_password: pulumi.Output[str]
    try_next: pulumi.Output[list[str]]

    def exported(self) -> dict[str, pulumi.Input[object]]:
        """The outputs under the names that they are exported by."""
        return {
            "chatUrl": self.chat_url,
            "gpuUrl": self.gpu_url,
            "model": self.model,
            "firstApiKey": self.first_api_key,
            "keySecret": self.key_secret,
            "kubeconfig": self.kubeconfig,
            "clusterId": self.cluster_id,
            "dashboards": self.dashboards,
            "grafanaPassword": self.grafana_password,
            "tryNext": self.try_next,
        }
