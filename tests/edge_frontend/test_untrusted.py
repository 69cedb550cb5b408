from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend import untrusted
from edge_frontend.untrusted import MAX_DEPTH

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text('a[]{}"\\é', max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("[{a", max_size=3), inner),
    max_leaves=300,
)


def depth(value: Any) -> int:
    """How many containers stand inside one another."""
    if not isinstance(value, dict | list):
        return 0
    inner = value.values() if isinstance(value, dict) else value
    return 1 + max(map(depth, inner), default=0)


@given(JSON)
def test_what_is_flat_enough_is_read_as_it_stands(value: Any) -> None:
    assert depth(value) <= MAX_DEPTH
    assert value == untrusted.loads(json.dumps(value).encode())
    assert value == untrusted.loads(json.dumps(value, ensure_ascii=False, indent=1).encode())


@given(JSON, st.integers(0, 3 * MAX_DEPTH), st.booleans())
def test_a_level_too_many_is_refused_wherever_it_stands(value: Any, more: int, lists: bool) -> None:
    for _ in range(more):
        value = [value, "]"] if lists else {"[": value}
    text = json.dumps([value, ["[" * 200]]).encode()
    if depth(value) + 1 > MAX_DEPTH:
        with pytest.raises(untrusted.TooDeep):
            untrusted.loads(text)
    else:
        assert [value, ["[" * 200]] == untrusted.loads(text)


@pytest.mark.parametrize("flat", [b"[" + b"[]," * 5_000 + b"[]]", b'{"a":{}}', b'["' + b"[" * 999])
def test_many_brackets_beside_one_another_are_not_deep(flat: bytes) -> None:
    assert not untrusted.nests_too_deep(flat)


@pytest.mark.parametrize(
    "deep",
    [b"[" * 5_000, b'{"a":' * 5_000, b"[" * 5_000 + b"]" * 5_000, b"[{" * 101, b'[""' * 101],
)
def test_brackets_that_never_close_are_refused_before_they_are_read(deep: bytes) -> None:
    with pytest.raises(untrusted.TooDeep):
        untrusted.loads(deep)


@pytest.mark.parametrize("coding", ["utf-16", "utf-16-be", "utf-32-le", "latin-1"])
def test_another_coding_is_no_json(coding: str) -> None:
    with pytest.raises(ValueError, match=r"decode|Expecting|Extra"):
        untrusted.loads('{"a": "é"}'.encode(coding))


@given(st.binary(max_size=300))
def test_no_bytes_raise_anything_but_a_value_error(noise: bytes) -> None:
    for text in (noise, b"[" * 101 + noise, b'["' + noise):
        try:
            untrusted.loads(text)
        except ValueError:
            continue
