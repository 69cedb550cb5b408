"""Builds the bare components and prepares vllm-router, into the bench's own folder."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from nearfar import edge, program

from .processes import NotAvailable, tool

TESTS = Path(__file__).resolve().parent.parent
ROUTER = "vllm-router==0.1.17"
LITELLM = "litellm[proxy]==1.108.7"
GUIDELLM = "guidellm==0.8.1"
LITELLM_KEY = "sk-bench-of-nearfar"
# It would else ask the network for prices, and write a line for each request.
LITELLM_ENVIRONMENT = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOG": "ERROR"}


def component(name: str, folder: Path) -> Path:
    """The precompiled bare component `tests/bench/<name>`, built when its sources are newer."""
    folder.mkdir(parents=True, exist_ok=True)
    wasm, compiled = folder / f"{name}.wasm", folder / f"{name}.cwasm"
    sources = [TESTS / "bench" / name / "app.py", TESTS / "bench" / "forward.py", Path(__file__)]
    newest = max(source.stat().st_mtime for source in sources)
    if not compiled.is_file() or compiled.stat().st_mtime < newest:
        print(f"building the {name} component (20 s)", file=sys.stderr)
        run(
            tool("componentize-py"),
            *("-w", "spin:up/http-trigger@4.1.0", "-d", TESTS / "bench" / "wit"),
            *("componentize", "-i", "local:edge/local-host", "-p", TESTS),
            *("-p", sysconfig.get_path("purelib"), f"bench.{name}.app", "-o", wasm),
        )
        run(program.find("wasmtime"), "compile", *edge.COMPILE_FLAGS, wasm, "-o", compiled)
    return compiled


def serve_arguments(compiled: Path, port: int, *, fresh: bool) -> list[str]:
    """The command line that serves a bare component as the edge is served; it reads UPSTREAM."""
    options = edge.ServeOptions(port, max_instance_reuse_count=1 if fresh else None)
    return edge.wasmtime_argv(compiled, options, {"UPSTREAM": ""})


def router(folder: Path, *, install: bool) -> Path:
    """vllm-router's program in an environment of its own; installed only on request."""
    return _installed(folder / "router", "vllm-router", ROUTER, install=install)


def litellm(folder: Path, *, install: bool) -> Path:
    """LiteLLM's proxy in an environment of its own; installed only on request."""
    return _installed(folder / "litellm", "litellm", LITELLM, install=install)


def guidellm(folder: Path, *, install: bool) -> Path:
    """GuideLLM in an environment of its own; installed only on request."""
    return _installed(folder / "guidellm", "guidellm", GUIDELLM, install=install)


def litellm_configuration(folder: Path, upstream: str) -> Path:
    """One model at the upstream, and a key that the proxy checks itself; no database."""
    path = folder / "litellm.json"  # JSON is YAML
    about = {"model": "openai/mock", "api_base": upstream, "api_key": "none"}
    document = {
        "model_list": [{"model_name": "mock", "litellm_params": about}],
        "general_settings": {"master_key": LITELLM_KEY},
        "litellm_settings": {"telemetry": False, "drop_params": False, "num_retries": 0},
    }
    path.write_text(json.dumps(document, indent=2), encoding="utf-8")
    return path


def _installed(environment: Path, name: str, requirement: str, *, install: bool) -> Path:
    program = environment / "bin" / name
    if program.is_file():
        return program
    if not install:
        raise NotAvailable(f"{name} is not installed; pass --install-router")
    print(f"installing {requirement} (a minute or two)", file=sys.stderr)
    uv = shutil.which("uv")
    python = environment / "bin" / "python"
    if uv is not None:
        run(uv, "venv", "--quiet", "--python", sys.executable, environment)
        run(uv, "pip", "install", "--quiet", "--python", python, requirement)
    else:
        run(sys.executable, "-m", "venv", environment)
        run(python, "-m", "pip", "install", "--quiet", requirement)
    return program


def nginx_configuration(folder: Path, port: int, upstream: str) -> Path:
    """nginx as a plain streaming proxy with kept connections; `upstream` is host:port."""
    home = folder / "nginx"
    home.mkdir(parents=True, exist_ok=True)
    path = home / "nginx.conf"
    path.write_text(
        f"""\
daemon off;
worker_processes auto;
pid {home}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 1024; }}
http {{
  access_log off;
  client_body_temp_path {home}/body;
  proxy_temp_path {home}/proxy;
  fastcgi_temp_path {home}/fastcgi;
  uwsgi_temp_path {home}/uwsgi;
  scgi_temp_path {home}/scgi;
  upstream u {{ server {upstream}; keepalive 128; }}
  server {{
    listen 127.0.0.1:{port};
    keepalive_requests 1000000;
    location / {{
      proxy_pass http://u;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }}
  }}
}}
"""
    )
    return path


def run(*command: str | Path, environment: Mapping[str, str] | None = None) -> None:
    """Run a program to its end.

    Raises:
        NotAvailable: it failed; the message ends with the last that it wrote.
    """
    words, env = [str(part) for part in command], {**os.environ, **(environment or {})}
    done = subprocess.run(words, capture_output=True, check=False, env=env)
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise NotAvailable(f"{Path(command[0]).name} failed: {output[-400:]}")
