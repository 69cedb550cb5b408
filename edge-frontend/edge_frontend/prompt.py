"""Assemble: from the client's request to the one sent to the model server."""

from __future__ import annotations

import json
from typing import Any

from .errors import ContextTooLong
from .request import ChatRequest
from .routes import Route
from .templates import Template

# A token of the byte-pair encodings in use holds about four bytes of English. No text that people
# write goes above six; only what is sure not to fit is refused here, the model server counts exactly.
BYTES_PER_TOKEN = 4
MOST_BYTES_PER_TOKEN = 6
TOKENS_PER_MESSAGE = 4


def estimate_tokens(messages: list[Any], bytes_per_token: int = BYTES_PER_TOKEN) -> int:
    """About how many tokens the messages are; an estimate, and called one wherever it is shown."""
    size = sum(_text_bytes(message.get("content")) for message in messages)
    return size // bytes_per_token + TOKENS_PER_MESSAGE * len(messages)


def output_cap(request: ChatRequest, route: Route, default: int) -> int | None:
    """The operator's cap where the client sets none, cut to what the context leaves.

    Raises:
        ContextTooLong: when the messages, or they and the asked output, cannot fit.
    """
    messages, context = request.fields["messages"], route.context_tokens
    asked = request.fields.get("max_completion_tokens") or request.fields.get("max_tokens")
    if context:
        least = estimate_tokens(messages, MOST_BYTES_PER_TOKEN)
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
    return max(1, min(default, context - estimate_tokens(messages, 3)))


def assemble(
    request: ChatRequest, route: Route, template: Template, cap: int | None
) -> dict[str, Any]:
    """The request for the model server: the template applied, defaults filled in, streamed.

    An answer is always asked for as a stream with its usage, so that its first content can be seen
    and a client that goes away is noticed; a client that wants one body gets it put together.
    """
    fields = dict(request.fields)
    fields["model"] = route.model
    fields["messages"] = _messages(fields["messages"], template)
    fields["stream"] = True
    fields["stream_options"] = {**(fields.get("stream_options") or {}), "include_usage": True}
    if cap is not None:
        fields["max_tokens"] = cap
    return fields


def dump(fields: dict[str, Any]) -> bytes:
    """JSON as compact ASCII, so that every value survives, lone surrogates too."""
    return json.dumps(fields, separators=(",", ":")).encode("ascii")


def _messages(messages: list[Any], template: Template) -> list[Any]:
    turns = [_turn(message, template) for message in messages]
    if not template.system:
        return turns
    return [{"role": "system", "content": template.system}, *turns]


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


def _text_bytes(content: Any) -> int:
    if isinstance(content, str):
        return len(content.encode("utf-8", "surrogatepass"))
    if isinstance(content, list):
        texts = (part.get("text") for part in content)
        return sum(len(text.encode("utf-8", "surrogatepass")) for text in texts if isinstance(text, str))
    return 0
