"""Where a delay can be put, how it is put there, and what can be proved of it at best."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nearfar.stats import stages

NOWHERE = "nowhere"
NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Place:
    """One place. `best` is the name that the comparison can give at best.

    `also` are parts that the delay makes longer as well, and that may be the longer ones. Of the
    rest exactly one says how the delay is put: a link (milliseconds of one round trip), a
    field of the fake engine's pace, or a header that the component's waits read.
    """

    name: str
    best: str
    how: str
    link: str = ""
    pace: str = ""
    header: str = ""
    built: bool = True
    also: tuple[str, ...] = ()


PLACES = (
    Place(
        "client link",
        stages.BEFORE_T0,
        "a delaying TCP proxy between client and edge, half the delay each way",
        link="client",
    ),
    Place(
        "edge start",
        stages.BEFORE_T0,
        "a wait in the component before it notes t0, where an instance's start lies",
        header="x-slow-start-ms",
    ),
    Place(
        "authentication",
        "authenticate",
        "a wait in the component before the key is verified",
        header="x-slow-authenticate-ms",
    ),
    Place(
        "cache",
        "look_up",
        "a delaying TCP proxy between the edge and a real Redis; the answer is kept there before "
        "the stream ends, so that its end comes later too (after t6)",
        link="near",
        also=(stages.AFTER_T6,),
    ),
    Place("retrieval", "retrieval", "there is no retrieval yet", built=False),
    Place(
        "link to the GPU",
        stages.UNATTRIBUTED,
        "a delaying TCP proxy between the edge and the model server",
        link="far",
    ),
    Place(
        "engine queue",
        stages.QUEUE,
        "the fake engine waits, and tells it as its queue_time_ms",
        pace="queue_ms",
    ),
    Place(
        "prefill",
        stages.FIRST_TOKEN,
        "the fake engine waits, and tells it as its time_to_first_token_ms",
        pace="prefill_ms",
    ),
    Place(
        "decode",
        stages.GENERATION,
        "the fake engine waits between chunks, and tells it as its generation_time_ms",
        pace="decode_ms",
    ),
    Place(
        "forwarding",
        "forward_first",
        "a wait in the component after the first content came, before it is forwarded",
        header="x-slow-forward-ms",
    ),
    Place(NOWHERE, NOTHING, "nothing is slowed"),
)
BY_NAME: Mapping[str, Place] = {place.name: place for place in PLACES}

# A link between edge and GPU, or client and edge, may be named on a probe's evidence alone.
UNSEEN = frozenset({"client link", "link to the GPU", "edge start", "network"})


@dataclass(frozen=True, slots=True)
class Injection:
    """A delay that was put: where, how long, on which side."""

    place: Place
    delay_ms: float
    side: str
    seed: int

    @property
    def headers(self) -> Mapping[str, str]:
        """What requests to the slowed side carry."""
        return {self.place.header: f"{self.delay_ms:.3f}"} if self.place.header else {}

    @property
    def settings(self) -> Mapping[str, float]:
        """What the world around the slowed side is told."""
        name = self.place.link or self.place.pace
        return {name: self.delay_ms} if name else {}


@dataclass(frozen=True, slots=True)
class Pace:
    """The fake engine's own times, in milliseconds."""

    queue_ms: float = 1.0
    prefill_ms: float = 12.0
    decode_ms: float = 24.0
    chunks: int = field(default=4)
