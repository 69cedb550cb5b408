"""The GPU as DCGM sees it."""

from __future__ import annotations

from nearfar_infra.dashboards.panels import Dashboard, Panel

_EACH = "{{Hostname}}{{hostname}} GPU {{gpu}}"

DASHBOARD = Dashboard(
    "nearfar-gpu",
    "nearfar / GPU",
    (
        (
            Panel("Busy", {_EACH: "DCGM_FI_DEV_GPU_UTIL"}, "percent"),
            Panel(
                "Memory in use",
                {_EACH: "DCGM_FI_DEV_FB_USED / (DCGM_FI_DEV_FB_USED + DCGM_FI_DEV_FB_FREE)"},
                "percentunit",
                "vLLM takes its share when it starts, whatever is asked of it.",
            ),
            Panel("Memory interface busy", {_EACH: "DCGM_FI_DEV_MEM_COPY_UTIL"}, "percent"),
        ),
        (
            Panel("Power", {_EACH: "DCGM_FI_DEV_POWER_USAGE"}, "watt"),
            Panel("Temperature", {_EACH: "DCGM_FI_DEV_GPU_TEMP"}, "celsius"),
            Panel("Clock", {_EACH: "DCGM_FI_DEV_SM_CLOCK * 1e6"}, "hertz"),
            Panel(
                "Last XID error",
                {_EACH: "DCGM_FI_DEV_XID_ERRORS"},
                text="The driver's number of the last fault; 0 is none.",
            ),
        ),
    ),
)
