"""Grafana's dashboards as code: each module is one, `panels` draws, `all` gives them all."""

from __future__ import annotations

import json

from nearfar_infra.dashboards import edge, gpu, serving

DASHBOARDS = {"vllm": serving.DASHBOARD, "gpu": gpu.DASHBOARD, "edge": edge.DASHBOARD}


def documents() -> dict[str, str]:
    """File name → JSON, as Grafana's sidecar reads it."""
    return {
        f"nearfar-{name}.json": json.dumps(dashboard.document(), sort_keys=True)
        for name, dashboard in DASHBOARDS.items()
    }
