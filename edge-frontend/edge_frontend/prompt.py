"""Assemble: from the client's request to the one sent to the model server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from . import guard_input
from .errors import ContextTooLong
from .request import ChatRequest
from .routes import Route
from .templates import Template

# A token of the byte-pair encodings in use holds about four characters of English, fewer of most
# other languages, and a text that people write hardly holds more than six on average. Only what is
# sure not to fit is refused here; the model server counts exactly.
MOST_CHARS_PER_TOKEN = 6
LEAST_BYTES_PER_TOKEN = 3
TOKENS_PER_MESSAGE = 4
# vLLM refuses these with stream: true (vllm/entrypoints/openai/chat_completion/protocol.py).
NEVER_STREAMED = ("prompt_logprobs", "use_beam_search")


def least_tokens(messages: list[Any]) -> int:
    """How many tokens the messages are at the least; an estimate, and called one where shown."""
    size = sum(len(text) for text in _texts(messages))
    return size // MOST_CHARS_PER_TOKEN + TOKENS_PER_MESSAGE * len(messages)


def ample_tokens(messages: list[Any]) -> int:
    """How many tokens are ample for the messages."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in _texts(messages))
    return size // LEAST_BYTES_PER_TOKEN + TOKENS_PER_MESSAGE * len(messages)


def output_cap(request: ChatRequest, route: Route, template: Template, default: int) -> int | None:
    """The operator's cap where the client sets none, cut to what the context leaves.

    Raises:
        ContextTooLong: when the messages, or they and the asked output, cannot fit.
    """
    messages, context = request.fields["messages"], route.context_tokens
    wrapped = template.before + template.after
    if template.system or wrapped:
        users = sum(message["role"] == "user" for message in messages)
        messages = [{"content": template.system + wrapped * users}, *messages]
    asked = request.fields.get("max_completion_tokens") or request.fields.get("max_tokens")
    if context:
        least = least_tokens(messages)
        if least + (asked or 1) > context:
            raise ContextTooLong(
                f"The messages are at least about {least} tokens"
                + (f" and {asked} are asked as output" if asked else "")
                + f"; the context of this model is {context} tokens.",
                param="messages",
            )
    if asked:
        return None
    if not context:
        return default
    return max(1, min(default, context - ample_tokens(messages)))


def assemble(
    request: ChatRequest, route: Route, template: Template, cap: int | None, heading: str = ""
) -> dict[str, Any]:
    """The request for the model server: the template applied, defaults filled in, streamed.

    An answer is asked for as a stream with its usage, so that its first content can be seen and a
    client that goes away is noticed; a client that wants one body gets it put together. What a
    model server gives only in one body is asked for as one.
    """
    fields = dict(request.fields)
    fields["model"] = route.model
    fields["messages"] = _messages(fields["messages"], template, heading)
    fields["stream"] = request.stream or not any(fields.get(name) for name in NEVER_STREAMED)
    if fields["stream"]:
        fields["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
    if cap is not None:
        fields["max_tokens"] = cap
    return fields


def dump(fields: dict[str, Any]) -> bytes:
    """JSON as compact ASCII, so that every value survives, lone surrogates too."""
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _messages(messages: list[Any], template: Template, heading: str) -> list[Any]:
    """The operator's system text stands above the client's, never beside or under it."""
    turns = [_turn(message, template) for message in messages]
    return guard_input.under(turns, template.system, heading)


def _turn(message: dict[str, Any], template: Template) -> dict[str, Any]:
    role = message["role"]
    if role == "developer":
        return {**message, "role": "system"}
    if role == "user" and (template.before or template.after):
        return {**message, "content": _wrap(message["content"], template)}
    return message


def _wrap(content: str | list[Any], template: Template) -> str | list[Any]:
    if isinstance(content, str):
        return template.before + content + template.after
    before = [{"type": "text", "text": template.before}] if template.before else []
    after = [{"type": "text", "text": template.after}] if template.after else []
    return [*before, *content, *after]


def _texts(messages: list[Any]) -> Iterator[str]:
    """Every text of the messages; what else they hold is not counted."""
    for message in messages:
        content = message.get("content")
        for part in content if isinstance(content, list) else [{"text": content}]:
            if isinstance(text := part.get("text"), str):
                yield text
