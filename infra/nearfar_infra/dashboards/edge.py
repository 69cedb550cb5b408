"""The edge as the GPU half sees it: what comes, what is refused, what its cache kept away.

An edge on another host has no metrics that could be asked; hits are told with later misses.
"""

from __future__ import annotations

from nearfar_infra.dashboards.panels import Dashboard, Panel, quantile, rate

_ROUTES = 'service=~"nearfar-.*"'

DASHBOARD = Dashboard(
    "nearfar-edge",
    "nearfar / edge",
    (
        (
            Panel(
                "Requests at the ingress",
                {
                    "{{code}} {{service}}": rate(
                        "traefik_service_requests_total", "code, service", _ROUTES
                    )
                },
                "reqps",
            ),
            Panel(
                "Time to the end of an answer at the ingress",
                {
                    f"p{round(share * 100)}": quantile(
                        share, "traefik_service_request_duration_seconds"
                    )
                    for share in (0.5, 0.95)
                },
                "s",
            ),
            Panel(
                "Open connections",
                {"{{entrypoint}}": "sum by (entrypoint) (traefik_open_connections)"},
            ),
        ),
        (
            Panel(
                "Answers of the edges' caches and of the model",
                {
                    "cache": rate("nearfar_gate_edge_hits_total"),
                    "model": rate("nearfar_gate_answers_total"),
                },
                "reqps",
                "Hits are told with a key's next miss, so they come late.",
            ),
            Panel(
                "Refused by the gate",
                {"{{code}}": rate("nearfar_gate_refusals_total", "code")},
                "reqps",
            ),
            Panel(
                "How answers ended",
                {"{{ended}}": rate("nearfar_gate_answers_total", "ended")},
                "reqps",
            ),
            Panel(
                "Tokens generated, and spared by the caches",
                {
                    "generated": rate("nearfar_gate_generated_tokens_total"),
                    "spared": rate("nearfar_gate_edge_hit_tokens_total"),
                },
            ),
        ),
        (
            Panel("The gates' Redis", {"{{pod}}": "nearfar_gate_redis_up"}, kind="stat"),
            Panel(
                "Certificates, until they end",
                {"{{cn}}": "min by (cn) (traefik_tls_certs_not_after) - time()"},
                "s",
                kind="stat",
            ),
        ),
    ),
)
