"""The component keeps what its OpenAPI description promises, for requests made from it.

schemathesis makes right and wrong requests of every operation. `just fuzz` asks for more of them
by NEARFAR_EXAMPLES than a test run does.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from schemathesis import APIOperation, GenerationMode
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import negative_data_rejection

from edge_frontend import __version__, headers
from edge_frontend.description import DOCUMENT
from fakes.script import Script
from fakes.upstream import UpstreamThread
from nearfar.guard import Guard
from stack import edges
from stack.caller import Caller
from stack.edges import UPSTREAM_KEY, Edge, Edges
from stack.stores import RedisServer

EXAMPLES = int(os.environ.get("NEARFAR_EXAMPLES", "15"))
# One short choice, whatever is asked: `n` may be any number.
SCRIPT = Script(pieces=("yes", " and", " no"), n=1)


@pytest.fixture(scope="module")
def asked(component: Any, run: Any, guard: Guard) -> Iterator[Edge]:
    """An edge and a store for these requests alone: they register and revoke keys."""
    store = RedisServer(run, guard)
    store.start()
    started = Edges(component, run, guard)
    with UpstreamThread(SCRIPT, api_key=UPSTREAM_KEY) as upstream:
        try:
            yield started.start(edges.settings({"mock": upstream.url}, store.url))
        finally:
            started.stop()
            store.kill()


@pytest.fixture(scope="module")
def described(asked: Edge) -> BaseSchema:
    """The description as the edge serves it."""
    document = httpx.get(f"{asked.url}/openapi.json", trust_env=False).json()
    loaded = schemathesis.openapi.from_dict(document)
    loaded.config.update(base_url=asked.url)
    return loaded


RIGHT, WRONG = GenerationMode.POSITIVE, GenerationMode.NEGATIVE
OPERATIONS = [(route.method, route.path) for route in headers.ROUTES]
COUNTS = ("n", "max_tokens", "max_completion_tokens", "expires_at")
# What takes neither a body nor a parameter cannot be asked wrongly.
CASES = [(*each, RIGHT) for each in OPERATIONS] + [
    (method, path, WRONG) for method, path in OPERATIONS if method in ("POST", "PUT", "DELETE")
]


@pytest.mark.parametrize(("method", "path", "mode"), CASES)
def test_every_operation_keeps_its_description(
    described: BaseSchema, method: str, path: str, mode: GenerationMode
) -> None:
    operation: APIOperation[Any, Any, Any, Any] = described[path][method]
    caller = Caller()

    # Any query is let pass.
    excluded: list[Any] = [negative_data_rejection] if method == "DELETE" else []

    @given(case=operation.as_strategy(generation_mode=mode).filter(_counts_are_whole))
    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
        phases=[Phase.generate],
    )
    def ask(case: schemathesis.Case[Any]) -> None:
        # Under the name that schemathesis leaves out to see whether a key is needed at all.
        case.call_and_validate(
            headers={"Authorization": f"Bearer {caller.key}"}, excluded_checks=excluded
        )

    ask()


def _counts_are_whole(case: schemathesis.Case[Any]) -> bool:
    """JSON Schema takes 1.0 for an integer; the edge does not."""
    body = case.body if isinstance(case.body, dict) else {}
    return not any(isinstance(body.get(name), float) for name in COUNTS)


def test_the_description_has_every_route_and_no_other() -> None:
    listed = {
        (method.upper(), path)
        for path, item in DOCUMENT["paths"].items()
        for method in item
        if method != "parameters"
    }
    assert {(route.method, route.path) for route in headers.ROUTES} == listed


def test_the_description_asks_for_a_key_where_the_route_does() -> None:
    for route in headers.ROUTES:
        operation = DOCUMENT["paths"][route.path][route.method.lower()]
        open_to_all = operation.get("security") == []
        assert (route.authentication == "none") == open_to_all, route


def test_the_description_is_of_this_version() -> None:
    assert __version__ == DOCUMENT["info"]["version"]
