"""The component's entry: from the host's request to the flow and back, on Spin and on wasmtime.

One source, two builds: the build for plain wasmtime has no Spin imports, and says so by their
absence. What is remembered here between requests is a hint; a host may start an instance for each.
"""

from __future__ import annotations

import encodings.idna  # noqa: F401  nothing can be imported once the component is built
import sys
from collections.abc import Awaitable
from importlib.util import find_spec

import componentize_py_async_support as tasks
from spin_sdk.wit.exports import HttpHandler as Base
from spin_sdk.wit.imports import wasi_cli_environment_0_3_0 as environment
from spin_sdk.wit.imports import wasi_http_types_0_3_0 as types
from spin_sdk.wit.imports import wasi_random_random_0_3_0 as random

from edge_frontend import flow, rehearsal, settings
from edge_frontend.adapters.wasi_clock import WasiClock
from edge_frontend.adapters.wasi_http import WasiInbound, respond
from edge_frontend.adapters.wasi_redis import WasiRedis
from edge_frontend.adapters.wasi_sockets import WasiSockets
from edge_frontend.adapters.wasi_upstream import WasiUpstream
from edge_frontend.errors import EdgeError
from edge_frontend.exchange import Exchange, Instance
from edge_frontend.ports import Ports, Reply, Store

IS_SPIN = find_spec("spin_sdk.wit.imports.spin_variables_variables_3_0_0") is not None
if IS_SPIN:
    from edge_frontend.adapters import spin_host

_CLOCK = WasiClock()
_UPSTREAM = WasiUpstream()


class HttpHandler(Base):
    """Answers every request of the component."""

    async def handle(self, request: types.Request) -> types.Response:
        started_ms = _CLOCK.now_ms()
        inbound = WasiInbound(request)
        try:
            host = await _host()
        except EdgeError as error:
            head = (("content-type", "application/json"),)
            _log(error.message)
            return respond(Reply(error.status, head, error.body()))
        exchange = Exchange.begin(inbound, host.ports, host.settings, host.instance, started_ms)
        return respond(await flow.handle(exchange))


class _Host:
    """What an instance remembers: settings, connections, hints."""

    def __init__(self, read: settings.Settings, store: Store | None) -> None:
        self.settings, self.instance = read, Instance()
        self.ports = Ports(
            clock=_CLOCK,
            store=store,
            upstream=_UPSTREAM,
            random_bytes=random.get_random_bytes,
            log=_log,
            spawn=_spawn,
            # Spin lets a component reach addresses over HTTP alone.
            sockets=None if IS_SPIN else WasiSockets(),
        )


_remembered: _Host | None = None


async def _host() -> _Host:
    global _remembered
    if _remembered is None:
        read = settings.from_variables(await _variables())
        _remembered = _Host(read, _store(read))
    return _remembered


async def _variables() -> dict[str, str]:
    if IS_SPIN:
        return await spin_host.variables()
    prefix = "NEARFAR_"
    found = environment.get_environment()
    return {
        name.removeprefix(prefix).lower(): value for name, value in found if name.startswith(prefix)
    }


def _store(read: settings.Settings) -> Store | None:
    if read.store == "none":
        return None
    if IS_SPIN:
        return spin_host.SpinStore(read.store, read.store_timeout_ms, _CLOCK)
    return WasiRedis(read.store, read.store_timeout_ms)


def _spawn(work: Awaitable[None]) -> None:
    tasks.spawn(work)


def _log(line: str) -> None:
    # One write: several instances share the host's output, and `print` writes the line's end apart.
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


rehearsal.rehearse()
