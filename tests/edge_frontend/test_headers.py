from __future__ import annotations

import pytest

from edge_frontend import headers

PAIRS = [("a", b"1"), ("b", b"2"), ("a", b"3"), ("c", "ä".encode("latin-1"))]


@pytest.mark.parametrize(
    ("path", "methods"),
    [
        ("/v1/chat/completions", ["POST"]),
        ("/v1/chat/completions?x=1", ["POST"]),
        ("/v1/models", ["GET"]),
        ("/healthz", ["GET"]),
        ("/readyz?verbose", ["GET"]),
        ("/openapi.json", ["GET"]),
        ("/admin/keys", ["GET"]),
        ("/admin/keys/k1", ["PUT", "DELETE"]),
        ("/admin/keys/k1?at=5", ["PUT", "DELETE"]),
        ("/admin/keys/", []),
        ("/admin/keys/k1/x", []),
        ("/admin/keys/{key_id}/", []),
        ("/v1/models/", []),
        ("/V1/models", []),
        ("//v1/models", []),
        ("/", []),
        ("", []),
        ("*", []),
    ],
)
def test_a_path_has_its_routes(path: str, methods: list[str]) -> None:
    assert methods == [route.method for route in headers.match(path)]


def test_one_value_all_values_and_the_list_of_a_header() -> None:
    assert ("1", "2", "", "ä") == tuple(headers.first(PAIRS, name) for name in ("a", "b", "x", "c"))
    assert [b"1", b"3"] == headers.all_of(PAIRS, "a")
    assert "1, 3" == headers.joined(PAIRS, "a")
    assert "" == headers.joined(PAIRS, "x")


def test_every_name_is_lower_case() -> None:
    for name in (*headers.READ, *headers.WRITTEN, *headers.SENT_UPSTREAM):
        assert name == name.lower()
