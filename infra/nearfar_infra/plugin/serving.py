"""Serves a Pulumi plugin until Pulumi ends it; the port is the first line on stdout."""

from __future__ import annotations

import signal
import sys
from concurrent import futures
from threading import Event

import grpc
from pulumi.runtime.proto import provider_pb2_grpc

# What Pulumi itself allows in one message.
_MAX_BYTES = 400 << 20


def serve(servicer: provider_pb2_grpc.ResourceProviderServicer, *, workers: int) -> None:
    """Answer at most so many calls at once, until SIGTERM or SIGINT."""
    options = [
        ("grpc.max_receive_message_length", _MAX_BYTES),
        ("grpc.max_send_message_length", _MAX_BYTES),
    ]
    server = grpc.server(futures.ThreadPoolExecutor(max_workers=workers), options=options)
    provider_pb2_grpc.add_ResourceProviderServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    sys.stdout.write(f"{port}\n")
    sys.stdout.flush()
    ended = Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: ended.set())
    ended.wait()
    server.stop(0)
