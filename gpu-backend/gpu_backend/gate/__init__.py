"""The gate: an ASGI middleware that vLLM loads, or a process of its own in front of a server."""

from gpu_backend.gate.middleware import Gate

__all__ = ["Gate"]
