"""From deleting a pod to the first token through an edge: the model's absence, by our own clock."""

from __future__ import annotations

import secrets
import time

import httpx

from nearfar.client import Question, ask
from nearfar.errors import Missing, NearfarError
from nearfar.exchange import TIMEOUT, Edge
from nearfar.placement.pods import Pods
from nearfar.placement.steps import Mark, Start, started

ANSWER_TIMEOUT_S = 600.0
_POLL_S = 0.5


def renewed(
    pods: Pods, edge: Edge, model: str, number: int, timeout_s: float = ANSWER_TIMEOUT_S
) -> tuple[Start, Start]:
    """Let a pod be made anew, and ask until there is an answer.

    The pod's own start, by the cluster's clocks; and the absence by ours: until the API said that
    the successor is ready (asked once a second), and from then until the first token came.

    Raises:
        Missing: no successor was ready, or no answer came in time.
    """
    began_s, began = time.time(), time.monotonic()
    pod = pods.renewed(number)
    ready_ms = (time.monotonic() - began) * 1000
    _first_token(edge, model, timeout_s)
    marks = [
        Mark("until its successor is ready", ready_ms),
        Mark("first token through the edge", (time.monotonic() - began) * 1000),
    ]
    note = "readiness is asked once a second"
    return pod, started("pod-answer", "cold", number, began_s, marks, note=note)


def _first_token(edge: Edge, model: str, timeout_s: float) -> None:
    """Ask a question that nobody asked before, again and again, until text comes."""
    deadline = time.monotonic() + timeout_s
    with httpx.Client(timeout=TIMEOUT, trust_env=False) as session:
        while True:
            text = f"Say {secrets.token_hex(4)}."
            question = Question(model, [{"role": "user", "content": text}], max_tokens=1)
            try:
                ask(edge, question, lambda _: None, session)
            except NearfarError as problem:
                if time.monotonic() > deadline:
                    raise Missing(
                        f"No answer came through {edge.endpoint} within {timeout_s:g} s of the "
                        f"pod's readiness: {problem.message}",
                        "look at /readyz of the edge.",
                    ) from problem
                time.sleep(_POLL_S)
            else:
                return
