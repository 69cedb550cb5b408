"""The rules' files and the language of their patterns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edge_frontend.guard_detectors import DETECTORS, card, iban
from edge_frontend.guard_pattern import BadPattern, parse
from edge_frontend.guard_rules import RULES, BadRules, read

DOCUMENT = Path(__file__).parents[2] / "docs" / "guardrails.md"


def rule(*lines: str) -> bytes:
    return "\n".join(["[[rule]]", *lines]).encode()


GOOD = ("name = 'r'", "pattern = 'abc'", "input = 'mask'")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (rule("name = 'R'", *GOOD[1:]), "a rule needs a name"),
        (rule(*GOOD[1:]), "a rule needs a name"),
        (rule(*GOOD[:2]), "rule r: input, output or both must be one of block, mask, flag"),
        (rule(*GOOD[:2], "output = 'hide'"), "must be one of block, mask, flag"),
        (rule(*GOOD, "detect = 'email'"), "rule r: either `detect` or `pattern`"),
        (rule("name = 'r'", "input = 'mask'"), "rule r: either `detect` or `pattern`"),
        (rule("name = 'r'", "detect = 'x'", "input = 'mask'"), "rule r: detect must be one of"),
        (rule(*GOOD, "mask = '\"'"), "rule r: a mask has 1 to 64"),
        (rule(*GOOD, "other = 1"), "rule r: 'other' is not known"),
        (rule(*GOOD) + b"\n" + rule(*GOOD), "two rules have the same name"),
        (rule("name = 'r'", "pattern = 'a+'", "input = 'mask'"), "a repetition has no bound"),
        (b"[input]\nmost_bytes = 0\n", r"most_bytes must be a whole number"),
        (b"[input]\nmost = 1\n", "'most' is not known"),
        (b"[system]\npolicy = 'over'\n", "policy must be one of under, refuse"),
        (b"rules = 1\n", "'rules' is not known"),
        (b"[[", "f: "),
        (b"\xff", "f: "),
    ],
)
def test_a_file_that_is_wrong_says_where(content: bytes, said: str) -> None:
    with pytest.raises(BadRules, match=r"^f: ") as raised:
        read("f", content)
    assert said in str(raised.value)


def test_an_edit_without_a_new_name_is_a_new_version() -> None:
    one, other = read("f", rule(*GOOD)), read("f", rule(*GOOD, "# a comment"))
    assert one.version.startswith("f+")
    assert one.version != other.version


def test_only_rules_for_answers_make_answers_slower() -> None:
    assert not RULES["none@1"].guards_output
    assert not read("f", rule(*GOOD)).guards_output
    assert read("f", rule(*GOOD[:2], "output = 'flag'")).guards_output
    assert RULES["standard@1"].guards_output


@pytest.mark.parametrize(
    "source",
    [
        "a*", "a+", "a{2,}", "a{,}", "^a", "a$", "(a)", "(?P<n>a)", r"a\1", r"\Aa", r"a\Z",
        "a{3,2}", "a{0}", "", "a?", r"\b", "(?:a|)", "(?=ab)c", "(?=a", "[a", "(?:a", "a)", "\\",
        "a??b??", "a{20001}",
        "(?:a{200}){200}", "(?<!a{2})b", "(?i)a", "(?=a)?b", "{2}", r"\x41", "[z-a]",
    ],
)  # fmt: skip
def test_what_is_outside_of_the_language_is_refused(source: str) -> None:
    with pytest.raises(BadPattern):
        parse(source)


@pytest.mark.parametrize(
    ("source", "least", "most"),
    [
        ("abc", 3, 3), ("a{2}b?", 2, 3), ("(?:ab|c){1,3}", 1, 6), (r"[]a]{,4}x", 1, 5),
        (r"\b\w{1,5}\b", 1, 5), (r"(?<!\d)\d(?!\d)", 1, 1), (r"a{0,2}?b", 1, 3), (r"[^\]]\.", 2, 2),
    ],
)  # fmt: skip
def test_a_pattern_knows_its_shortest_and_longest_match(source: str, least: int, most: int) -> None:
    parsed = parse(source)
    assert (source, least, most) == (parsed.source, parsed.least, parsed.most)


def patterns() -> st.SearchStrategy[str]:
    atoms = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", r"\b", "(?!a)", "(?<=b)", "c"])
    return st.recursive(
        atoms,
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=3).map("".join),
            st.lists(inner, min_size=2, max_size=3).map(lambda ways: f"(?:{'|'.join(ways)})"),
            st.tuples(inner, st.sampled_from(["?", "{2}", "{0,2}", "{1,3}", "{1,2}?"])).map(
                lambda both: f"(?:{both[0]}){both[1]}"
            ),
        ),
        max_leaves=6,
    )


@given(patterns(), st.text(alphabet="abc ", max_size=8), st.text(alphabet="abc ", max_size=6))
def test_what_no_longer_may_become_a_match_does_not(source: str, text: str, more: str) -> None:
    """Where V does not match the rest of a text, more text changes nothing about P there."""
    try:
        parsed = parse(source)
    except BadPattern:
        return
    pattern, viable = re.compile(parsed.source), re.compile(parsed.viable)
    begun = re.compile(parsed.begun)
    for at in range(len(text)):
        assert (viable.match(text, at) is None) is (begun.match(text, at) is None)
        if viable.match(text, at) is None:
            now, later = pattern.match(text, at), pattern.match(text + more, at)
            assert (now and now.span()) == (later and later.span())
            assert now is None or now.end() < len(text)


def test_every_detector_has_a_longest_match() -> None:
    for name, detector in DETECTORS.items():
        assert 20_000 >= parse(detector.pattern).most, name


def test_a_checksum_decides_how_much_of_a_number_is_one() -> None:
    assert len("4111 1111 1111 1111") == card("4111 1111 1111 1111 12")
    assert 0 == card("4111 1111 1111 1112")
    assert len("DE89 3704 0044 0532 0130 00") == iban("DE89 3704 0044 0532 0130 00 AND SO ON")
    assert 0 == iban("DE88 3704 0044 0532 0130 00")


def test_the_documents_example_is_a_file_of_rules() -> None:
    text = DOCUMENT.read_text()
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    rules = read("example", "\n".join(lines).encode())
    assert ["codename"] == [rule.name for rule in rules.input.rules]
    assert {name for name in DETECTORS if f"`{name}`" in text} == set(DETECTORS)
    assert {name for name in RULES if f"`{name}`" in text} == set(RULES)
