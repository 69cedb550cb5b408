"""Masking in pieces is masking at once, wherever the text was cut."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edge_frontend.errors import ContentPolicyViolation
from edge_frontend.guard_rules import RULES, Group, read
from edge_frontend.guard_scan import masked
from edge_frontend.guard_text import Arguments, Json, Plain, Text

STANDARD = RULES["standard@1"].output
IGNORE = set[str]().add
ODD = read(
    "odd",
    rb"""
[[rule]]
name = "word"
pattern = 'foo(?:bar)?(?!x)'
output = "mask"
[[rule]]
name = "lazy"
pattern = '(?<![a-z])a[ab]{0,6}?b\b'
output = "mask"
[[rule]]
name = "ways"
pattern = 'ab|abcd|b{2,4}c'
output = "mask"
[[rule]]
name = "case"
pattern = 'oof|fo{1,3}d'
ignore_case = true
output = "mask"
[[rule]]
name = "space"
pattern = '(?<=\s)x{1,3}y?'
output = "mask"
""",
).output

FRAGMENTS = [
    "dana.q@exa", "mple.test", "dana.q@example.test", "@", ".", "x", " ", "\n", "é", "😀", "-", "+",
    "4111 1111 1111 1111", "4111", "1111", "5500-0000-0000-0004", "12", "3", "DE89 3704 0044 0532",
    " 0130 00", "GB82WEST12345698765432", "AKIAIOSFODNN7EXAMPLE", "AKIA", "sk-", "sk-" + "a1" * 12,
    "nf_eyJ" + "Ab3_" * 6 + "." + "c" * 43, "+1 415 555 2671", "(415) 555-2671", "call ",
    "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "MIIEow==\n", "Hello there",
]  # fmt: skip


def spans_of(text: str, group: Group) -> list[tuple[int, int, str]]:
    """Every match of every rule, found in the whole text by `re` alone."""
    found = []
    for rule in group.rules:
        at = 0
        while match := rule.pattern.search(text, at):
            length = rule.check(match.group()) if rule.check else len(match.group())
            at = match.start() + (length or 1)
            if length:
                found.append((match.start(), at, rule.mask))
    return sorted(found, key=lambda span: span[0])


def by_the_definition(text: str, group: Group) -> str:
    """The text with each run of overlapping matches replaced by the mask of its first."""
    out, covered = "", 0
    for start, end, mask in spans_of(text, group):
        if start >= covered:
            out += text[covered:start] + mask
        covered = max(covered, end)
    return out + text[covered:]


def in_pieces(text: Text, pieces: list[str]) -> list[str]:
    return [*(text.feed(piece) for piece in pieces), text.flush()]


@st.composite
def cut(draw: st.DrawFn, texts: st.SearchStrategy[str]) -> list[str]:
    text = draw(texts)
    places = sorted(draw(st.lists(st.integers(0, len(text)), max_size=12)))
    return [text[a:b] for a, b in zip([0, *places], [*places, len(text)], strict=True)]


tricky = st.lists(st.sampled_from(FRAGMENTS), max_size=10).map("".join)
odd = st.text(alphabet="abcdfoOrxy \n", max_size=30)


@given(cut(tricky))
@example(["dana.q@exa", "mple.test"])
def test_any_cut_gives_what_the_whole_text_gives(pieces: list[str]) -> None:
    fired = set[str]()
    whole = "".join(pieces)
    wanted = by_the_definition(whole, STANDARD)
    assert wanted == masked(whole, STANDARD, fired.add)
    assert wanted == "".join(in_pieces(Plain(STANDARD, fired.add), pieces))
    assert wanted == "".join(in_pieces(Plain(STANDARD, fired.add), list(whole)))


@settings(max_examples=500)
@given(cut(odd))
@example(["foo", "barx"])
@example(["ab", "cd"])
@example(["Fo", "od"])
def test_patterns_of_any_form_are_cut_anywhere(pieces: list[str]) -> None:
    whole = "".join(pieces)
    wanted = by_the_definition(whole, ODD)
    assert wanted == masked(whole, ODD, IGNORE)
    assert wanted == "".join(in_pieces(Plain(ODD, IGNORE), pieces))


@given(cut(tricky))
def test_what_has_left_is_never_part_of_a_match(pieces: list[str]) -> None:
    """After every piece, what left is the masked text of what is decided, and no raw part of it."""
    whole = "".join(pieces)
    inside = {at for start, end, _ in spans_of(whole, STANDARD) for at in range(start, end)}
    text = Plain(STANDARD, IGNORE)
    wanted, left = by_the_definition(whole, STANDARD), ""
    for piece in in_pieces(text, pieces):
        left += piece
        assert wanted.startswith(left)
    raw = "".join(char for at, char in enumerate(whole) if at not in inside)
    assert raw == re.sub("|".join(re.escape(r.mask) for r in STANDARD.rules), "", left)


def test_one_byte_a_write_never_shows_the_address() -> None:
    text = Plain(STANDARD, IGNORE)
    left = ""
    for char in "Write to dana.q@example.test today":
        left += text.feed(char)
        assert "Write to ".startswith(left) or left.startswith("Write to [email]")
    assert "Write to [email] today" == left + text.flush()


def test_prose_is_held_back_by_no_more_than_its_last_word() -> None:
    text = Plain(STANDARD, IGNORE)
    left, given_so_far = "", ""
    for piece in ["It", " was", " the", " best", " of", " times", ",", " in", " 1775", ",", " it"]:
        given_so_far += piece
        left += text.feed(piece)
        assert len(given_so_far) - len(left) <= len(" times"), given_so_far
        assert given_so_far.startswith(left)


def test_a_rule_that_blocks_lets_nothing_of_its_match_go() -> None:
    rules = read("b", b"[[rule]]\nname = 'codename'\npattern = 'bluebird'\noutput = 'block'\n")
    fired = set[str]()
    text = Plain(rules.output, fired.add)
    assert "the " == text.feed("the blue")
    with pytest.raises(ContentPolicyViolation, match="rule `codename`") as raised:
        text.feed("bird flies")
    assert "bluebird" not in str(raised.value)
    assert {"codename"} == fired


json_values = st.recursive(
    st.one_of(
        tricky, st.integers(), st.booleans(), st.none(), st.sampled_from([4111111111111111, 1.5])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(tricky, inner, max_size=3)
    ),
    max_leaves=6,
)


@given(st.data(), json_values, st.booleans(), st.sampled_from([None, 1]))
def test_json_stays_json_and_its_strings_are_masked_as_they_read(
    data: st.DataObject, value: object, in_ascii: bool, indent: int | None
) -> None:
    spelled = json.dumps({"a": value}, ensure_ascii=in_ascii, indent=indent)
    pieces = data.draw(cut(st.just(spelled)))
    out = "".join(in_pieces(Arguments(STANDARD, IGNORE), pieces))
    assert _masked({"a": value}) == json.loads(out)
    if _masked({"a": value}) == {"a": value}:
        assert spelled == out


def _masked(value: object) -> object:
    if isinstance(value, str):
        return by_the_definition(value, STANDARD)
    if isinstance(value, dict):
        return {by_the_definition(name, STANDARD): _masked(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_masked(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        text = by_the_definition(json.dumps(value), STANDARD)
        return value if text == json.dumps(value) else text
    return value


@pytest.mark.parametrize(
    ("spelled", "wanted"),
    [
        (r'{"to":"dana.q\u0040example.test"}', '{"to":"[email]"}'),
        (r'{"to":"\u0064ana.q@example.test, \u00e9"}', r'{"to":"[email], \u00e9"}'),
        ('{"card": 4111111111111111 }', '{"card": "[card]" }'),
        ('[4111111111111111,2]', '["[card]",2]'),
        (r'{"key":"AKIAIOSFODNN7EXAMPLE\n"}', r'{"key":"[aws-key]\n"}'),
        ('{"cut off":"dana.q@example.te', '{"cut off":"[email]'),
        ('{"cut off":"a\\u00', '{"cut off":"a\\u00'),
        ("plain dana.q@example.test", "plain [email]"),
        ("  ", "  "),
    ],
)  # fmt: skip
def test_arguments_are_read_as_their_reader_reads_them(spelled: str, wanted: str) -> None:
    assert wanted == "".join(in_pieces(Arguments(STANDARD, IGNORE), [spelled]))
    assert wanted == "".join(in_pieces(Arguments(STANDARD, IGNORE), list(spelled)))


@given(cut(st.text(alphabet='{}[]",:\\u0041 a@.tesn\n', max_size=60)))
def test_what_is_no_json_is_cut_anywhere_too(pieces: list[str]) -> None:
    whole = "".join(pieces)
    once = "".join(in_pieces(Json(STANDARD, IGNORE), [whole]))
    assert once == "".join(in_pieces(Json(STANDARD, IGNORE), pieces))
    assert once == "".join(in_pieces(Json(STANDARD, IGNORE), list(whole)))
