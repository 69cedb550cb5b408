"""Builds the bare components and prepares vllm-router, into the bench's own folder."""

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from nearfar import edge, program

from .processes import NotAvailable, tool

TESTS = Path(__file__).resolve().parent.parent
ROUTER = "vllm-router==0.1.17"


def component(name: str, folder: Path) -> Path:
    """The precompiled bare component `tests/bench/<name>`, built when its sources are newer."""
    folder.mkdir(parents=True, exist_ok=True)
    wasm, compiled = folder / f"{name}.wasm", folder / f"{name}.cwasm"
    sources = [TESTS / "bench" / name / "app.py", TESTS / "bench" / "forward.py", Path(__file__)]
    newest = max(source.stat().st_mtime for source in sources)
    if not compiled.is_file() or compiled.stat().st_mtime < newest:
        print(f"building the {name} component (20 s)", file=sys.stderr)
        _run(
            tool("componentize-py"),
            *("-w", "spin:up/http-trigger@4.1.0", "-d", TESTS / "bench" / "wit"),
            *("componentize", "-i", "local:edge/local-host", "-p", TESTS),
            *("-p", sysconfig.get_path("purelib"), f"bench.{name}.app", "-o", wasm),
        )
        _run(program.find("wasmtime"), "compile", *edge.COMPILE_FLAGS, wasm, "-o", compiled)
    return compiled


def serve_arguments(compiled: Path, port: int, *, fresh: bool) -> list[str]:
    """The command line that serves a bare component as the edge is served; it reads UPSTREAM."""
    options = edge.ServeOptions(port, max_instance_reuse_count=1 if fresh else None)
    return edge.wasmtime_argv(compiled, options, {"UPSTREAM": ""})


def router(folder: Path, *, install: bool) -> Path:
    """vllm-router's program in an environment of its own; installed only on request."""
    environment = folder / "router"
    program = environment / "bin" / "vllm-router"
    if program.is_file():
        return program
    if not install:
        raise NotAvailable("vllm-router is not installed; pass --install-router")
    print(f"installing {ROUTER} (half a minute)", file=sys.stderr)
    uv = shutil.which("uv")
    python = environment / "bin" / "python"
    if uv is not None:
        _run(uv, "venv", "--quiet", "--python", sys.executable, environment)
        _run(uv, "pip", "install", "--quiet", "--python", python, ROUTER)
    else:
        _run(sys.executable, "-m", "venv", environment)
        _run(python, "-m", "pip", "install", "--quiet", ROUTER)
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


def _run(*command: str | Path) -> None:
    done = subprocess.run([str(part) for part in command], capture_output=True, check=False)
    if done.returncode:
        output = (done.stdout + done.stderr).decode(errors="replace").strip()
        raise NotAvailable(f"{Path(command[0]).name} failed: {output[-400:]}")
