"""The quantities of the before and after table: what they are of one request."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from nearfar.errors import BadInput
from nearfar.runs import Sample

Value = Callable[[Sample], float | None]


@dataclass(frozen=True, slots=True)
class Price:
    """What a million tokens cost, in whatever money the operator counts."""

    input_per_million: float
    output_per_million: float

    def of(self, sample: Sample) -> float | None:
        """The price of one request; None where its tokens are not known."""
        if sample.input_tokens is None or sample.output_tokens is None:
            return None
        spent = sample.input_tokens * self.input_per_million
        return (spent + sample.output_tokens * self.output_per_million) / 1e6


def price(text: str) -> Price:
    """Read `INPUT/OUTPUT`, each the price of a million tokens.

    Raises:
        BadInput: it is not two numbers of at least 0.
    """
    first, mark, second = text.partition("/")
    try:
        found = Price(float(first), float(second))
    except ValueError:
        mark = ""
    if not mark or not (0 <= found.input_per_million < 1e9 and 0 <= found.output_per_million < 1e9):
        raise BadInput(
            f"--price {text!r} is not two prices of a million tokens.", "give them as 0.15/0.60"
        )
    return found


@dataclass(frozen=True, slots=True)
class Measure:
    """One row; `absent` is why it can be missing."""

    name: str
    unit: str
    value: Value
    absent: str


FIRST_CONTENT = "first content"
END_TO_END = "end to end"
AFTER_FIRST = "after first content"
INPUT_TOKENS = "input tokens"
# What a user feels; these are judged as one family, and an explanation needs one of them.
FELT = (FIRST_CONTENT, AFTER_FIRST, END_TO_END)
_NO_RECORD = "the edge sent no record; the key needs the permission trace"
_NO_USAGE = "the model server gave no usage"
_NO_RETRIEVAL = "there is no retrieval"

_MEASURES = (
    Measure(
        "retrieval duration",
        "ms",
        lambda s: s.recorded("derived.retrieval_duration"),
        _NO_RETRIEVAL,
    ),
    Measure("documents", "", lambda s: s.recorded("retrieval.documents"), _NO_RETRIEVAL),
    Measure(INPUT_TOKENS, "", lambda s: s.input_tokens, _NO_USAGE),
    Measure(
        "model-call first content",
        "ms",
        lambda s: s.recorded("derived.model_call_first_content_latency"),
        "no model was asked, or the edge sent no record",
    ),
    Measure(FIRST_CONTENT, "ms", lambda s: s.first_content_ms, "no content came"),
    Measure(
        "first answer content", "ms", lambda s: s.first_answer_ms, "no content but reasoning came"
    ),
    Measure(
        AFTER_FIRST,
        "ms",
        lambda s: (
            None
            if s.end_to_end_ms is None or s.first_content_ms is None
            else s.end_to_end_ms - s.first_content_ms
        ),
        "no content came",
    ),
    Measure("time per output token", "ms", lambda s: s.tpot_ms, _NO_USAGE),
    Measure(END_TO_END, "ms", lambda s: s.end_to_end_ms, "no answer came to its end"),
    Measure(
        "from schedule to first content",
        "ms",
        lambda s: s.from_schedule_ms,
        "in a closed loop no request is due",
    ),
    Measure("output tokens", "", lambda s: s.output_tokens, _NO_USAGE),
    Measure("near round trips", "", lambda s: s.recorded("trips.near"), _NO_RECORD),
    Measure("far round trips", "", lambda s: s.recorded("trips.far"), _NO_RECORD),
)
_NO_PRICE = "no prices were given (--price)"


def rows(prices: tuple[Price | None, Price | None]) -> tuple[tuple[Measure, Measure], ...]:
    """Return each row as it is taken of both sides; they differ in nothing but the price."""
    costs = tuple(
        Measure(
            "cost",
            "price",
            _nothing if each is None else each.of,
            _NO_PRICE if each is None else _NO_USAGE,
        )
        for each in prices
    )
    return (*((measure, measure) for measure in _MEASURES), (costs[0], costs[1]))


def taken(samples: Sequence[Sample], value: Value) -> Mapping[int, float]:
    """Return a quantity of every request that has it, by the request's number here."""
    found = ((at, value(sample)) for at, sample in enumerate(samples))
    return {at: float(each) for at, each in found if each is not None}


def _nothing(_: Sample) -> None:
    return None
