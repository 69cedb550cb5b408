"""What stands beside the figures: what else changed, what speaks for a cause, what is open."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nearfar.runs import Run, Sample
from nearfar.stats import stages
from nearfar.stats.blocks import LEAST_BLOCKS
from nearfar.stats.explanation import Explanation
from nearfar.stats.failures import Failures
from nearfar.stats.likeness import Unlike
from nearfar.stats.links import Link
from nearfar.stats.measures import INPUT_TOKENS
from nearfar.stats.mix import Breakdown
from nearfar.stats.quality import Quality, same_answers
from nearfar.stats.side import Sides
from nearfar.stats.verdict import Finding, rounded

# Labels of the record that say what was running.
LABELS = (
    "service_version",
    "settings_hash",
    "environment",
    "region",
    "route_table",
    "route",
    "model",
    "model_revision",
    "template_version",
    "guardrails",
)


@dataclass(frozen=True, slots=True)
class Change:
    """Something that was another thing before than after."""

    what: str
    before: str
    after: str

    def as_dict(self) -> dict[str, str]:
        """For --json."""
        return {"what": self.what, "before": self.before, "after": self.after}


@dataclass(frozen=True, slots=True)
class Told:
    """What the remarks are made from."""

    both: Sides
    rows: Mapping[str, Finding]
    explanation: Explanation
    link: Link | None
    changes: Sequence[Change]
    breakdowns: Sequence[tuple[str, Breakdown]]
    quality: Sequence[Quality]


def changes(before: Run, after: Run, both: Sides) -> tuple[Change, ...]:
    """Return what differs between the two deployments, as far as the runs say it."""
    pairs = [("address", before.header.target.url, after.header.target.url)]
    pairs += [("placement", before.header.placement or "", after.header.placement or "")]
    for label in LABELS:
        one, two = _usual(both.before, label), _usual(both.after, label)
        pairs.append((label.replace("_", " "), one, two))
    return tuple(Change(name, one, two) for name, one, two in pairs if one != two)


def _usual(samples: Sequence[Sample], label: str) -> str:
    """The values of a label, the most frequent first; empty where it was not told."""
    seen = Counter(str(v) for s in samples if (v := s.recorded(label)) is not None)
    return ", ".join(value for value, _ in seen.most_common(3))


def evidence(told: Told) -> tuple[str, ...]:
    """Say what was seen beside the named part that bears on it."""
    most = told.explanation.most
    if most is None:
        return ()
    found = [] if told.link is None else [f"{told.link} of the part, by a probe of it alone"]
    tokens = told.rows.get(INPUT_TOKENS)
    if tokens and tokens.seen and most.name in (stages.FIRST_TOKEN, stages.UNATTRIBUTED):
        found.append(f"{_moved(tokens)}: a longer prompt takes longer to read")
    output = told.rows.get("output tokens")
    if output and output.seen and stages.after_first(most.name):
        found.append(f"{_moved(output)}: a longer answer takes longer")
    for name in ("near round trips", "far round trips"):
        trips = told.rows.get(name)
        if trips and trips.seen:
            found.append(_moved(trips))
    found += [f"{c.what} changed: {c.before or 'none'} → {c.after or 'none'}" for c in told.changes]
    return tuple(found)


def not_proved(told: Told, before: Run, after: Run) -> tuple[str, ...]:
    """Say what a reader might take from this and may not."""
    found = []
    if not told.both.paired:
        found.append(
            "that the change made the difference: the runs were not measured in turns, and "
            "whatever else was different then is in it"
        )
    elif len(told.changes) > 1:
        found.append("which of the changes made the difference: all of them changed together")
    if told.explanation.most is not None and not told.explanation.of:
        found.append("that a user waits longer or shorter: a part moved, and no difference is felt")
    found += _of_the_part(told.explanation, told.link)
    if not told.quality:
        found.append("that answers are as good as before: no expected answers, no judge")
    for run, name in ((before, "before"), (after, "after")):
        if not run.is_whole:
            found.append(f"anything of the part of the run {name} that is missing: it was cut off")
    if min(told.both.rows) < LEAST_BLOCKS:
        found.append(
            f"anything about latency: {min(told.both.rows)} blocks are too few, "
            f"{LEAST_BLOCKS} are needed"
        )
    return tuple(found)


def _of_the_part(explanation: Explanation, link: Link | None) -> list[str]:
    if link is not None:
        return [f"what made the {link.name} longer: distance, another route or a queue on it"]
    if explanation.most is None:
        return [f"where a difference comes from: {explanation.why_not}"]
    name = explanation.most.name
    special = {
        stages.UNATTRIBUTED: "that it is the network: unattributed is all between dispatch and "
        "first content that the engine does not tell, its server's own work and tokens before "
        "the first content too. nearfar roundtrip measures the link alone",
        stages.BEFORE_T0: "whether it is the way to the edge, TLS, or an instance's start: the "
        "edge sees none of them. nearfar roundtrip and nearfar coldstart tell them apart",
        stages.FIRST_TOKEN: "what made the engine take longer: the prompt, its neighbours in the "
        "batch or its machine",
        stages.QUEUE: "whose requests filled the engine: those of this load or another's",
        stages.STREAM_REST: "whether the edge or a slow reader held the stream back",
        stages.AFTER_T6: "whether the way or the client was slow: the edge had sent everything",
    }
    return [special.get(name, f"what inside the stage {name} took the time")]


def warnings(
    allowed: Sequence[Unlike], breakdowns: Sequence[tuple[str, Breakdown]], failures: Failures
) -> tuple[str, ...]:
    """Say what makes the plain differences misleading."""
    found = [f"unlike, and allowed: {each}" for each in allowed]
    if failures.differ:
        one, two = failures.rates
        found.append(
            f"the error rate changed: {one:.1%} → {two:.1%}; failed requests are in no latency"
        )
    mixed = dict.fromkeys(each.dimension for _, each in breakdowns if each.changed)
    found += [f"the mix by {name} changed: read the mix-adjusted difference" for name in mixed]
    return tuple(found)


def broken_down(of: str, one: Breakdown) -> dict[str, Any]:
    """A breakdown for --json."""
    return {
        "of": of,
        "dimension": one.dimension,
        "mix_change": round(one.change, 4),
        "mix_p": round(one.p, 4),
        "mix_changed": one.changed,
        "swapped": one.swapped,
        "groups": [
            {
                "name": group.name,
                "requests": list(group.requests),
                **_difference(group.difference),
            }
            for group in one.groups
        ],
        "adjusted": None if one.adjusted is None else _difference(one.adjusted),
        "left_out": list(one.left_out),
    }


def _difference(found: Any) -> dict[str, Any]:
    if found is None:
        return {"before": None, "after": None, "difference": None, "interval": None}
    return {
        "before": rounded(found.before),
        "after": rounded(found.after),
        "difference": rounded(found.value),
        "interval": [round(end, 6) for end in found.interval()] if found.known else None,
    }


def _moved(row: Finding) -> str:
    one, two = row.difference.before, row.difference.after
    share = f" ({two / one - 1:+.0%})" if one else ""
    return f"{row.name} {one:.4g} → {two:.4g}{share}"


def agreement(both: Sides) -> str:
    """How many answers are the same on both sides; empty where that is not known."""
    found = same_answers(both)
    if found is None:
        return ""
    same, of = found
    return f"{same} of {of} prompts were answered alike, to the last character"
