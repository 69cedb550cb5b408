"""What a chat request asks of the fake upstream, and the text that it gets for it."""

import itertools
from dataclasses import dataclass
from typing import Any

from .script import Script


@dataclass(frozen=True, slots=True)
class Ask:
    """The fields of a request that decide the answer."""

    model: str
    text: str  # the last user message
    stream: bool = False
    include_usage: bool = False
    n: int = 1
    logprobs: bool = False
    max_tokens: int | None = None
    prompt_tokens: int = 0  # one word is one token here

    @classmethod
    def of(cls, body: dict[str, Any]) -> "Ask":
        """What a parsed request body asks for."""
        messages = body.get("messages") or []
        texts = [text_of(message) for message in messages]
        users = [t for t, m in zip(texts, messages, strict=True) if m.get("role") == "user"]
        return cls(
            model=str(body.get("model", "")),
            text=users[-1] if users else "",
            stream=bool(body.get("stream")),
            include_usage=bool((body.get("stream_options") or {}).get("include_usage")),
            n=int(body.get("n") or 1),
            logprobs=bool(body.get("logprobs")),
            max_tokens=body.get("max_completion_tokens") or body.get("max_tokens"),
            prompt_tokens=sum(len(text.split()) for text in texts),
        )


def text_of(message: dict[str, Any]) -> str:
    """The text of one message, whose content is a string, null or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def pieces_of(ask: Ask, script: Script, index: int = 0) -> tuple[str, ...]:
    """The content deltas of one choice; joined they are its text.

    A choice after the first marks every delta with its index, so that none can be mixed up.
    """
    if script.pieces is not None:
        pieces = script.pieces
    elif script.content is None and script.tool_calls:
        pieces = ()
    else:
        text = ask.text if script.content is None else script.content
        words = text.split() or ["nothing"]
        count = len(words) if script.chunks is None else script.chunks
        cycle = itertools.islice(itertools.cycle(words), count)
        pieces = tuple(word if i == 0 else f" {word}" for i, word in enumerate(cycle))
    kept = pieces[: ask.max_tokens] if ask.max_tokens else pieces
    return tuple(f"{piece}({index})" for piece in kept) if index else kept


def expected_text(body: dict[str, Any], script: Script | None = None) -> str:
    """The text that the fake answers to this request body (first choice)."""
    return "".join(pieces_of(Ask.of(body), script or Script()))
