from __future__ import annotations

import json
from typing import Any

import pytest

from edge_frontend.routes import RouteTable, Upstream
from edge_frontend.wrong import Wrong

TABLE: dict[str, Any] = {
    "version": "7",
    "upstreams": {"gpu": {"url": "http://127.0.0.1:8000"}},
    "models": {
        "small": {
            "upstream": "gpu",
            "model": "served",
            "revision": "r1",
            "context_tokens": 2048,
            "serving_hash": "s1",
        }
    },
}


def read(**changes: Any) -> RouteTable:
    return RouteTable.from_json(json.dumps(TABLE | changes))


def test_a_table_maps_a_model_to_its_upstream() -> None:
    route = read().models["small"]
    assert Upstream("gpu", "http", "127.0.0.1:8000", "") == route.upstream
    assert ("small", "served", "r1", 2048, "s1") == (
        route.name, route.model, route.revision, route.context_tokens, route.serving_hash,
    )  # fmt: skip
    assert "7" == read().version


def test_what_is_not_said_of_a_model_is_unknown() -> None:
    route = read(models={"small": {"upstream": "gpu"}}).models["small"]
    assert ("small", "unknown", 0, "unknown") == (
        route.model, route.revision, route.context_tokens, route.serving_hash,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("url", "scheme", "authority", "path"),
    [
        ("http://gpu", "http", "gpu", ""),
        ("https://gpu.example:8443/", "https", "gpu.example:8443", ""),
        ("http://gpu/v1", "http", "gpu", ""),
        ("http://gpu/v1/", "http", "gpu", ""),
        ("http://gpu/models/a/v1", "http", "gpu", "/models/a"),
        ("http://[::1]:8000", "http", "[::1]:8000", ""),
    ],
)
def test_an_upstreams_url_is_taken_apart(url: str, scheme: str, authority: str, path: str) -> None:
    upstream = read(upstreams={"gpu": {"url": url}}).upstreams["gpu"]
    assert Upstream("gpu", scheme, authority, path) == upstream


@pytest.mark.parametrize(
    "url",
    [
        "", "gpu:8000", "ftp://gpu", "http://", "http:///v1", "http://gpu?key=1", "http://gpu#x",
        "http://gpu:99999", "http://gpu:no", "http://[::1", None, 5,
    ],
)  # fmt: skip
def test_a_url_that_is_none_is_refused_by_the_upstreams_name(url: Any) -> None:
    with pytest.raises(ValueError, match=r"^upstream 'gpu' must have an http or https url$"):
        read(upstreams={"gpu": {"url": url}})


@pytest.mark.parametrize("user", ["user:canary@", "canary@", "@", ":canary@"])
def test_a_url_carries_no_credentials_and_the_error_does_not_repeat_them(user: str) -> None:
    with pytest.raises(ValueError, match="no credentials") as caught:
        read(upstreams={"gpu": {"url": f"http://{user}gpu"}})
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize("tokens", ["2048", -1, 1.5, True, [], {}])
def test_a_context_that_is_no_number_of_tokens_is_refused(tokens: Any) -> None:
    with pytest.raises(
        ValueError, match=r"^context_tokens of model 'small' must be a whole number$"
    ):
        read(models={"small": {"upstream": "gpu", "context_tokens": tokens}})


def test_a_model_whose_upstream_is_missing_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="model 'small' names no upstream"):
        read(models={"small": {"upstream": "other"}})


def test_a_table_without_models_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one model"):
        read(models={})


@pytest.mark.parametrize(
    "text",
    [
        "", "{", "[]", "null", "7", "{}", '{"version":"1"}', '{"version":"1","upstreams":[]}',
        '{"version":"1","upstreams":{},"models":[]}', '{"version":"1","upstreams":{"a":1}}',
        '{"upstreams":{"a":{"url":"http://a"}},"models":{"m":{"upstream":"a"}}}',
        "[" * 100_000,
    ],
)  # fmt: skip
def test_a_text_that_is_no_table_is_answered_with_the_form(text: str) -> None:
    with pytest.raises(ValueError, match=r'^must be JSON \{"version", "upstreams"'):
        RouteTable.from_json(text)


@pytest.mark.parametrize("entry", [{"upstream": ["a"]}, {"upstream": None}, {}, {"upstream": "a"}])
def test_a_model_that_names_no_upstream_is_refused_by_its_name(entry: object) -> None:
    with pytest.raises(ValueError, match=r"^model 'm' names no upstream of the table$"):
        read(models={"m": entry})


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(Wrong) as caught:
        read(upstreams={"gpu": {}, "b": 7}, models={"m": "gpu", "n": {"upstream": "gpu"}})
    assert (
        "upstream 'gpu' must have an http or https url",
        "upstream 'b' must be an object with a url",
        "model 'm' must be an object that names its upstream",
    ) == caught.value.problems
