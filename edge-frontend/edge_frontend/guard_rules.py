"""The guardrails' rules: versioned files, read when the component is built.

    [input]    most_bytes, most_messages      what is larger, the rule `largest-input` refuses
    [system]   policy = "under" | "refuse", heading
    [[rule]]   name
               detect = a name of guard_detectors
                 or pattern = guard_pattern's language, ignore_case
               input and output = "block" | "mask" | "flag"
               mask = what stands for a match, [name] unless given

A version is the file's name and a digest of its content, so that an edit without a new name is a
new version. A rule without an action for a direction does not look at it.
"""

from __future__ import annotations

import hashlib
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import guard_pattern
from .guard_detectors import DETECTORS, Check, Detector

ACTIONS = ("block", "mask", "flag")
POLICIES = ("under", "refuse")
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
# A mask stands in JSON strings, in names and in texts: no quote, backslash or control character.
_MASK = re.compile(r"[A-Za-z0-9 \[\]()<>*#_.:-]{1,64}")
_NOTHING = re.compile(r"(?!)")


class BadRules(ValueError):
    """A rules file that cannot be used; the message names the file and the rule."""


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule in one direction; `begun` matches a rest of a text that may begin a match."""

    name: str
    action: str
    pattern: re.Pattern[str]
    begun: str
    mask: str
    check: Check | None
    needs: tuple[str, ...]

    def find(self, text: str, start: int, before: int) -> tuple[int, int] | None:
        """The first match from `start` on that begins before `before`, as start and end."""
        while (found := self.pattern.search(text, start)) and found.start() < before:
            if self.check is None:
                return found.span()
            if length := self.check(found.group()):
                return found.start(), found.start() + length
            start = found.start() + 1
        return None

    def may_be_in(self, text: str) -> bool:
        """Whether a text has what every match has: a quick look that spares a slow one."""
        return not self.needs or any(need in text for need in self.needs)


@dataclass(frozen=True, slots=True)
class Group:
    """Rules that look at the same texts.

    `viable` finds where a text may begin a match of one of them, and `needed` what the matches of
    all of them have: a text without has none.
    """

    rules: tuple[Rule, ...]
    viable: re.Pattern[str]
    needed: re.Pattern[str]

    @staticmethod
    def of(rules: list[Rule], *actions: str) -> Group:
        """Those of the rules that have one of these actions."""
        chosen = tuple(rule for rule in rules if rule.action in actions)
        if not chosen:
            return _EMPTY
        needs = sorted({re.escape(need) for rule in chosen for need in rule.needs})
        anything = not all(rule.needs for rule in chosen)
        viable = "|".join([r"\Z", *(_scoped(rule) for rule in chosen)])
        return Group(chosen, re.compile(viable), re.compile("" if anything else "|".join(needs)))


_EMPTY = Group((), _NOTHING, _NOTHING)


@dataclass(frozen=True, slots=True)
class Rules:
    """One file. In each direction a group changes texts or refuses them, and one only watches."""

    name: str
    version: str
    most_bytes: int
    most_messages: int
    system_policy: str = "under"
    system_heading: str = ""
    input: Group = _EMPTY
    input_watch: Group = _EMPTY
    output: Group = _EMPTY
    output_watch: Group = _EMPTY

    @property
    def guards_input(self) -> bool:
        """Whether a rule looks at requests; if not, only their size counts."""
        return bool(self.input.rules or self.input_watch.rules)

    @property
    def guards_output(self) -> bool:
        """Whether an answer has to be looked at; if not, its bytes may pass untouched."""
        return bool(self.output.rules or self.output_watch.rules)


def load(folder: Path) -> Mapping[str, Rules]:
    """Every rules file of a folder, by name.

    Raises:
        BadRules: naming the file and what is wrong.
    """
    found = (read(path.stem, path.read_bytes()) for path in sorted(folder.glob("*.toml")))
    return {rules.name: rules for rules in found}


def read(name: str, content: bytes) -> Rules:
    """One file.

    Raises:
        BadRules: naming the file and what is wrong.
    """
    try:
        return _rules(name, content)
    except (ValueError, TypeError) as error:
        raise BadRules(f"{name}: {error}") from error


def _rules(name: str, content: bytes) -> Rules:
    document: dict[str, Any] = tomllib.loads(content.decode())
    _only(document, {"input", "system", "rule"}, "the file")
    limits, system = document.get("input", {}), document.get("system", {})
    _only(limits, {"most_bytes", "most_messages"}, "[input]")
    _only(system, {"policy", "heading"}, "[system]")
    incoming, outgoing = list[Rule](), list[Rule]()
    names = [table.get("name") for table in document.get("rule", ())]
    if len({*names}) < len(names):
        raise ValueError("two rules have the same name")
    for table in document.get("rule", ()):
        _rule(table, incoming, outgoing)
    if (policy := system.get("policy", "under")) not in POLICIES:
        raise ValueError(f"[system] policy must be one of {', '.join(POLICIES)}")
    return Rules(
        name=name,
        version=f"{name}+{hashlib.sha256(content).hexdigest()[:8]}",
        most_bytes=_count(limits, "most_bytes", 1_000_000),
        most_messages=_count(limits, "most_messages", 1_000),
        system_policy=policy,
        system_heading=str(system.get("heading", "")),
        input=Group.of(incoming, "block", "mask"),
        input_watch=Group.of(incoming, "flag"),
        output=Group.of(outgoing, "block", "mask"),
        output_watch=Group.of(outgoing, "flag"),
    )


def _rule(table: dict[str, Any], incoming: list[Rule], outgoing: list[Rule]) -> None:
    name = table.get("name")
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError("a rule needs a name of lower-case letters, digits and '-'")
    known = {"name", "detect", "pattern", "ignore_case", "input", "output", "mask"}
    _only(table, known, f"rule {name}")
    detector = _detector(name, table)
    actions = (table.get("input"), table.get("output"))
    if not any(actions) or not {*actions} <= {*ACTIONS, None}:
        raise ValueError(f"rule {name}: input, output or both must be one of {', '.join(ACTIONS)}")
    mask = table.get("mask", f"[{name}]")
    if not _MASK.fullmatch(mask):
        raise ValueError(f"rule {name}: a mask has 1 to 64 letters, digits, spaces or []()<>*#_.:-")
    try:
        parsed = guard_pattern.parse(detector.pattern)
    except guard_pattern.BadPattern as error:
        raise ValueError(f"rule {name}: {error}") from error
    flags = re.IGNORECASE if table.get("ignore_case", False) is True else 0
    pattern = re.compile(parsed.source, flags)
    for action, rules in zip(actions, (incoming, outgoing), strict=True):
        if action is not None:
            rest = (pattern, parsed.begun, mask, detector.check, detector.needs)
            rules.append(Rule(name, action, *rest))


def _detector(name: str, table: dict[str, Any]) -> Detector:
    if ("detect" in table) == ("pattern" in table):
        raise ValueError(f"rule {name}: either `detect` or `pattern`")
    if "pattern" in table:
        return Detector(table["pattern"])
    if table["detect"] not in DETECTORS:
        raise ValueError(f"rule {name}: detect must be one of {', '.join(sorted(DETECTORS))}")
    return DETECTORS[table["detect"]]


def _scoped(rule: Rule) -> str:
    return f"(?{'i' if rule.pattern.flags & re.IGNORECASE else ''}:{rule.begun})"


def _count(table: Mapping[str, Any], name: str, default: int) -> int:
    value = table.get(name, default)
    if type(value) is not int or value < 1:
        raise ValueError(f"[input] {name} must be a whole number of at least 1")
    return value


def _only(table: Mapping[str, Any], known: set[str], where: str) -> None:
    if unknown := set(table) - known:
        raise ValueError(f"{where}: {min(unknown)!r} is not known")


# Read at import on purpose: componentize-py freezes them into the component, which has no files.
RULES = load(Path(__file__).parent.parent / "guardrails")
