"""vLLM: what waits, what runs, how long a client waits for what, how full the KV cache is."""

from __future__ import annotations

from nearfar_infra.dashboards.panels import Dashboard, Panel, quantiles, rate

DASHBOARD = Dashboard(
    "nearfar-vllm",
    "nearfar / vLLM",
    (
        (
            Panel(
                "Requests at the engine",
                {
                    "running": "sum(vllm:num_requests_running)",
                    "waiting": "sum(vllm:num_requests_waiting)",
                },
            ),
            Panel(
                "Places at the gate",
                {
                    "taken": "sum(nearfar_gate_in_flight)",
                    "seats": "sum(nearfar_gate_seats)",
                    "capacity": "sum(nearfar_gate_capacity)",
                },
            ),
            Panel("KV cache in use", {"{{pod}}": "vllm:kv_cache_usage_perc"}, "percentunit"),
        ),
        (
            Panel(
                "Time to first token",
                quantiles("vllm:time_to_first_token_seconds"),
                "s",
                "From the request's arrival at vLLM, queue included.",
            ),
            Panel("Time between tokens", quantiles("vllm:inter_token_latency_seconds"), "s"),
            Panel("Time in the queue", quantiles("vllm:request_queue_time_seconds"), "s"),
            Panel("Whole answer", quantiles("vllm:e2e_request_latency_seconds"), "s"),
        ),
        (
            Panel(
                "Tokens a second",
                {
                    "generated": rate("vllm:generation_tokens_total"),
                    "prompt": rate("vllm:prompt_tokens_total"),
                },
            ),
            Panel(
                "Prefix cache, share of prompt tokens",
                {
                    "hits": f"{rate('vllm:prefix_cache_hits_total')}"
                    f" / {rate('vllm:prefix_cache_queries_total')}"
                },
                "percentunit",
            ),
            Panel(
                "Answers by how they ended",
                {"{{finished_reason}}": rate("vllm:request_success_total", "finished_reason")},
                "reqps",
            ),
            Panel(
                "Turned away by the engine, and put back",
                {
                    "turned away": rate("vllm:admission_rejections_total"),
                    "put back": rate("vllm:num_preemptions_total"),
                },
                "reqps",
                "Both should stay at zero: the gate's bound is the engine's.",
            ),
        ),
    ),
)
