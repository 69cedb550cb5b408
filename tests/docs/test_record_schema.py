"""docs/record.schema.json is the form of every record that the edge really writes."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from edge_frontend import account, errors, headers
from fakes.edge import (
    METRICS,
    Edge,
    RecordingSink,
    Response,
    Scripted,
    Wait,
    chat,
    chunk,
    make_key,
    run,
    stream,
)
from nearfar.record import ClientLane, merged

SCHEMA = json.loads((Path(__file__).parents[2] / "docs/record.schema.json").read_text())
LOG_LINES = jsonschema.Draft202012Validator(
    {**SCHEMA["$defs"]["log_line"], "$defs": SCHEMA["$defs"]}
)
SHARED = SCHEMA["$defs"]["shared"]["properties"]
TRACER = make_key(("chat", "trace"))
TRACE = {"x-nearfar-trace": "1"}


def valid(record: Mapping[str, Any]) -> None:
    jsonschema.Draft202012Validator(SCHEMA).validate(record)


def nulls(document: Any, path: str = "") -> list[str]:
    """The dotted names of everything in a document that is null."""
    if document is None:
        return [path]
    if not isinstance(document, dict):
        return []
    below = [nulls(value, f"{path}.{name}" if path else name) for name, value in document.items()]
    return [name for names in below for name in names]


def record_of(response: Response) -> dict[str, Any]:
    """The record that a response carries."""
    if "event-stream" in response.headers["content-type"]:
        record: dict[str, Any] = response.chunks()[-1]["nearfar"]
    else:
        record = response.json()["nearfar"]
    return record


def ask(edge: Edge, **fields: Any) -> Response:
    return run(edge.ask(chat(**fields), key=TRACER, headers=TRACE))


def answered(*pieces: Any, asks: int = 1, **fields: Any) -> Callable[[], Response]:
    """A scene: the last of some equal requests, answered by these pieces."""

    def scene() -> Response:
        edge = Edge.with_store(categories="a")
        edge.upstream.usual = Scripted(pieces or stream("Hello", " there", metrics=METRICS))
        return [ask(edge, **fields) for _ in range(asks)][-1]

    return scene


def without_a_store() -> Response:
    return ask(Edge())


RECORDED: dict[str, Callable[[], Response]] = {
    "streamed miss": answered(stream=True),
    "miss in one body": answered(),
    "streamed hit": answered(stream=True, asks=2),
    "hit in one body": answered(asks=2),
    "bypass": answered(temperature=1),
    "no usage": answered(*stream("x", usage=None)),
    "no metrics": answered(*stream("x")),
    "part of the metrics": answered(*stream("x", metrics={"queue_time_ms": None})),
    "odd metrics": answered(*stream("x", metrics={"queue_time_ms": float("nan")})),
    "no content": answered(chunk({}, "stop"), *stream()[-1:], stream=True),
    "a slow body": answered(*stream("x")[:2], Wait(900), *stream("x")[2:]),
    "no store": without_a_store,
}


@pytest.mark.parametrize("scene", RECORDED)
def test_a_record_of_a_real_run_has_the_form_and_a_reason_for_every_null(scene: str) -> None:
    response = RECORDED[scene]()
    record = record_of(response)
    valid(record)
    absent = record.pop("not_available")
    assert sorted(nulls(record)) == sorted(absent)
    assert sum(record["stages"].values()) == pytest.approx(record["edge"]["t6"], abs=0.001)
    assert response.log is not None
    LOG_LINES.validate(response.log)


def refused(**request: Any) -> Callable[[], Response]:
    return lambda: run(Edge.with_store().ask(request.pop("body", chat()), **request))


def failed(*pieces: Any, status: int = 200, **fields: Any) -> Callable[[], Response]:
    def scene() -> Response:
        edge = Edge.with_store()
        edge.upstream.usual = Scripted(pieces, status=status)
        return run(edge.ask(chat(**fields)))

    return scene


def left() -> Response:
    edge = Edge.with_store()
    edge.upstream.usual = Scripted([*stream("x")[:2], Wait()])
    return run(edge.ask(chat(stream=True), RecordingSink(edge.clock, leave_after=1)))


LOGGED: dict[str, Callable[[], Response]] = {
    "invalid_api_key": refused(key=None),
    "permission_denied": refused(key=make_key(())),
    "invalid_request": refused(body=b"{"),
    "context_length_exceeded": refused(body=chat("x" * 20_000)),
    "model_not_found": refused(body=chat(model="x")),
    "not_found": refused(path="/x"),
    "method_not_allowed": refused(method="GET"),
    "upstream_error": failed(b"", status=500),
    "upstream_busy": failed(b"", status=429),
    "upstream_rejected": failed(b"", status=400),
    "upstream_timeout": failed(errors.UpstreamTimeout("late")),
    "upstream_broke": failed(*stream("x")[:2], stream=True),
    "client_gone": left,
    "misconfigured": lambda: run(Edge().get("/admin/keys", key=make_key(("admin",)))),
}


@pytest.mark.parametrize("code", LOGGED)
def test_a_log_line_of_a_failed_request_has_the_form(code: str) -> None:
    log = LOGGED[code]().log
    assert log is not None
    assert code == log["error"]
    LOG_LINES.validate(log)


def test_a_record_with_the_clients_lane_in_it_has_the_form() -> None:
    record = record_of(answered(stream=True)())
    for client in (ClientLane(), ClientLane(1.0, 2.0, 3.0, 4.0, 5.0)):
        document = dict(merged(record, client, secure=False).document)
        valid(document)
        absent = document.pop("not_available")
        assert sorted(nulls(document)) == sorted(absent)


def test_the_schema_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(SCHEMA)


def described(schema: Any, path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every property of a schema with its dotted name."""
    for name, inner in schema.get("properties", {}).items():
        yield f"{path}{name}", inner
        yield from described(inner, f"{path}{name}.")


PROPERTIES = [
    *described(SCHEMA),
    *described(SCHEMA["$defs"]["shared"]),
    *described(SCHEMA["$defs"]["log_line"]),
]


@pytest.mark.parametrize(("name", "schema"), PROPERTIES)
def test_every_field_is_described_with_its_unit(name: str, schema: dict[str, Any]) -> None:
    assert schema["description"].endswith((".", ".md"))
    timed = name.startswith(("edge.", "stages.", "derived.", "client.")) or name.endswith("_ms")
    assert timed is ("Milliseconds." in schema["description"])


def test_the_schema_knows_exactly_what_the_code_writes() -> None:
    assert account.SCHEMA == SHARED["schema"]["const"] == SCHEMA["title"]
    assert list(account.INSTANTS) == list(SHARED["edge"]["properties"])
    assert list(account.STAGES) == list(SHARED["stages"]["properties"])
    assert list(account.ENGINE_FIELDS) == list(SHARED["engine"]["properties"])
    assert set(account.LABELS) <= set(SHARED)
    assert set(headers.X_CACHE) == set(SHARED["cache"]["enum"])
    assert set(ClientLane.__slots__) == set(SCHEMA["properties"]["client"]["properties"])
    record = account.Account(0.0, "req_" + "0" * 24, "a" * 32).record()
    assert set(record) == {*SHARED, *SCHEMA["properties"]}
    assert set(record["derived"]) == set(SHARED["derived"]["properties"])


def test_every_code_that_a_client_may_get_is_known() -> None:
    classes = [item for _, item in inspect.getmembers(errors, inspect.isclass)]
    codes = {item.code for item in classes if issubclass(item, errors.EdgeError)}
    # A chat request goes on without its store, and the admin way says misconfigured.
    assert {*codes, "client_gone", None} - {errors.StoreDown.code} == set(SHARED["error"]["enum"])


@pytest.mark.parametrize(
    "changes",
    [
        {"schema": "nearfar.record/2"}, {"status": 0}, {"cache": "maybe"}, {"x_new": 1},
        {"edge": {}}, {"stages": {"lunch": 1}}, {"request_id": "mine"}, {"error": "oops"},
        {"not_available": {"edge.t1": ""}}, {"trips": {"near": -1, "far": 0}}, {"client": {}},
    ],
)  # fmt: skip
def test_the_schema_refuses_what_is_no_record(changes: dict[str, Any]) -> None:
    record = record_of(answered()())
    with pytest.raises(jsonschema.ValidationError):
        valid(record | changes)


@pytest.mark.parametrize("name", [*SHARED, *SCHEMA["properties"]])
def test_the_schema_misses_what_is_left_out(name: str) -> None:
    record = record_of(answered()())
    del record[name]
    with pytest.raises(jsonschema.ValidationError):
        valid(record)
