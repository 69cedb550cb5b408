from __future__ import annotations

import inspect
import json
import re

import pytest

from edge_frontend import account, errors
from edge_frontend.errors import (
    EdgeError,
    UpstreamBusy,
    UpstreamRejected,
)

CLASSES: list[type[EdgeError]] = [
    item
    for _, item in inspect.getmembers(errors, inspect.isclass)
    if issubclass(item, EdgeError) and item is not EdgeError
]


def drawn() -> dict[str, tuple[str, str, str]]:
    """What the docstring draws: by class its parent, status and code."""
    tree: dict[str, tuple[str, str, str]] = {}
    parents = {0: "EdgeError"}
    line = re.compile(r"    ((?:[│ ] {3})*)[├└]── (\w+) +([\dx]+(?:, \d+)?) +(\w+)(?: .*)?")
    for text in (errors.__doc__ or "").splitlines():
        found = line.fullmatch(text)
        if found:
            depth = len(found[1]) // 4
            tree[found[2]] = (parents[depth], found[3], found[4])
            parents[depth + 1] = found[2]
    return tree


def test_the_tree_in_the_docstring_is_the_tree_of_the_classes() -> None:
    assert {item.__name__ for item in CLASSES} == set(drawn())
    for item in CLASSES:
        parent, status, code = drawn()[item.__name__]
        assert parent == item.__bases__[0].__name__
        assert code == item.code
        if item not in (UpstreamBusy, UpstreamRejected):  # these carry the server's own status
            assert status == str(item.status), item


def test_every_kind_of_failure_has_a_code_of_its_own() -> None:
    codes = [item.code for item in CLASSES]
    assert sorted(set(codes)) == sorted(codes)


def test_every_kind_of_failure_belongs_to_a_stage_of_the_account() -> None:
    assert {EdgeError.stage, *(item.stage for item in CLASSES)} <= set(account.STAGES)


@pytest.mark.parametrize("kind", CLASSES)
def test_a_failure_is_told_as_openais_error_object(kind: type[EdgeError]) -> None:
    said = 'say "so"\n'
    error = json.loads(kind(said).body())["error"]
    assert {"message", "type", "param", "code"} == set(error)
    assert (said, kind.type, None, kind.code) == (
        error["message"], error["type"], error["param"], error["code"],
    )  # fmt: skip


def test_a_failure_may_name_a_parameter_another_status_and_headers() -> None:
    error = UpstreamBusy("full", status=429, headers=(("retry-after", "7"),), param="n")
    assert (429, (("retry-after", "7"),)) == (error.status, error.headers)
    assert "n" == json.loads(error.body())["error"]["param"]
    assert 503 == UpstreamBusy.status
