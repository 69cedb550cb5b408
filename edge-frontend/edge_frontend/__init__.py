"""The request path: one chat request through the edge, as pure functions over narrow ports."""

__version__ = "0.1.0"
