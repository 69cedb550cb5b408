"""Requests of drawn lengths. Words stand for tokens; how many there were is told by usage.

No tokenizer is asked: each word is one that common vocabularies hold as one token, and the model's
template adds some. The answer's length is exact where the server is vLLM (`min_tokens`,
`ignore_eos`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from nearfar.errors import BadInput
from nearfar.load.prompt import Prompt
from nearfar.load.workload import Requests

# Frequent English words: single tokens, with the space before them, in byte-pair vocabularies.
_TEXT = """
time year people way day man thing woman life child world school state family student group
country problem hand part place case week company system program question work government
number night point home water room mother area money story fact month lot right study book
eye job word business issue side kind head house service friend father power hour game line
end member law car city community name president team minute idea kid body information back
parent face others level office door health person art war history party result change
morning reason research girl guy moment air teacher force education
"""
_WORDS = tuple(_TEXT.split())


@dataclass(frozen=True, slots=True)
class Length:
    """A length that is drawn evenly from `low` to `high`, both among them."""

    low: int
    high: int

    @classmethod
    def parse(cls, text: str) -> Length:
        """Read `200` or `100-300`."""
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", text)
        if found is None or int(found[1]) < 1 or int(found[2] or found[1]) < int(found[1]):
            raise BadInput(f"{text!r} is not a number of tokens.", "give 200, or 100-300.")
        return cls(int(found[1]), int(found[2] or found[1]))

    def draw(self, random: Random) -> int:
        """One length."""
        return random.randint(self.low, self.high)

    def __str__(self) -> str:
        return str(self.low) if self.low == self.high else f"{self.low}-{self.high}"


def messages(seed: int, number: int, tokens: int) -> Sequence[Mapping[str, Any]]:
    """Words that no other number has in common at their beginning: no prefix is shared."""
    random = Random(f"{seed} {number}")  # noqa: S311 - to be drawn again, not to be secret
    words = random.choices(_WORDS, k=tokens)
    return [{"role": "user", "content": " ".join(words)}]


def requests(count: int, inputs: Length, outputs: Length, seed: int) -> Requests:
    """Draw `count` requests; the same for the same seed."""
    random = Random(seed)  # noqa: S311 - to be drawn again, not to be secret
    drawn = [(inputs.draw(random), outputs.draw(random)) for _ in range(count)]
    found = tuple(
        Prompt(id=f"s{number}", messages=messages(seed, number, taken), output_tokens=given)
        for number, (taken, given) in enumerate(drawn)
    )
    return Requests("synthetic", f"{inputs} in, {outputs} out", found)
