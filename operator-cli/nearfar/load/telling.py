"""Makes a sample of what was seen of a request, and says why what was not seen was not."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nearfar.runs.sample import Failure, Outcome, Sample

if TYPE_CHECKING:
    from nearfar.load.client import Seen, Shot

_ENDED = {
    "ok": "the answer had none",
    "empty": "the answer had no content",
    "refused": "the request was refused",
    "failed": "the request failed before",
    "aborted": "the request was ended before",
    "cut": "the stream broke off before",
}


def sample_of(
    shot: Shot, seen: Seen, outcome: Outcome, failed: Failure | None, *, keep_text: bool
) -> Sample:
    """The sample of one request; texts stay in it only if they are to be kept."""
    reading = seen.reading
    return Sample(
        i=shot.i,
        block=shot.block,
        phase=shot.phase,
        arm=shot.arm,
        scheduled_s=_rounded(shot.due_s),
        sent_s=round(seen.sent_s, 7),
        headers_s=_rounded(seen.headers_s),
        first_content_s=_rounded(reading.first_content_s),
        first_answer_s=_rounded(reading.first_answer_s),
        last_content_s=_rounded(reading.last_content_s),
        end_s=_rounded(seen.end_s),
        gaps_ms=tuple(reading.gaps_ms),
        connection=seen.connection,
        status=seen.status,
        outcome=outcome,
        error=failed,
        finish_reason=reading.finish_reason,
        usage=reading.usage,
        x_cache=seen.headers.get("x-cache"),
        request_id=seen.headers.get("x-request-id") or reading.answer_id,
        prompt_id=shot.prompt.id,
        category=shot.prompt.category,
        answer_sha256=reading.sha256,
        record=reading.record,
        not_available=_missing(shot, seen, outcome),
        prompt=shot.prompt.text if keep_text else None,
        answer=reading.text if keep_text else None,
        expected=shot.prompt.expected,
    )


def _rounded(at_s: float | None) -> float | None:
    """A tenth of a microsecond is below what the clock and the loop can tell apart."""
    return None if at_s is None else round(at_s, 7)


def _missing(shot: Shot, seen: Seen, outcome: Outcome) -> dict[str, str]:
    reading = seen.reading
    values = {
        "headers_s": seen.headers_s,
        "first_content_s": reading.first_content_s,
        "first_answer_s": reading.first_answer_s,
        "last_content_s": reading.last_content_s,
    }
    missing = {name: _ENDED[outcome] for name, value in values.items() if value is None}
    if shot.due_s is None:
        missing["scheduled_s"] = "none is due in a closed loop"
    whole = outcome in ("ok", "empty")
    for name, value in (("usage", reading.usage), ("record", reading.record)):
        if value is None:
            missing[name] = "the server gave none" if whole else _ENDED[outcome]
    return missing
