"""A chat request as the client sent it: checked where the edge must know, kept where it need not.

Fields we do not know are kept value for value: integers of any size, floats by their shortest
spelling, lone surrogates. Shapes: https://platform.openai.com/docs/api-reference/chat/create
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from . import untrusted
from .errors import BadRequest

ROLES = frozenset({"system", "developer", "user", "assistant", "tool", "function"})


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """The body as an object, and the few facts the flow turns on."""

    fields: dict[str, Any]
    model: str
    stream: bool
    wants_usage: bool
    choices: int

    @property
    def deterministic(self) -> bool:
        """Whether the same request gives the same answer: temperature 0, or a seed."""
        temperature, seed = self.fields.get("temperature"), self.fields.get("seed")
        is_zero = _is_number(temperature) and temperature == 0
        return is_zero or (isinstance(seed, int) and not isinstance(seed, bool))


def parse(body: bytes) -> ChatRequest:
    """Read and check a request's body.

    Raises:
        BadRequest: naming the field; no value of the request stands in the text.
    """
    try:
        fields = untrusted.loads(body, parse_constant=_no_constant, parse_float=_finite)
    except untrusted.TooDeep:
        raise BadRequest(f"The body nests deeper than {untrusted.MAX_DEPTH}.") from None
    except ValueError:
        raise BadRequest("The body is not valid JSON.") from None
    if not isinstance(fields, dict):
        raise BadRequest("The body must be a JSON object.")
    _check_messages(fields.get("messages"))
    options = fields.get("stream_options")
    stream = _flag(fields, "stream")
    if options is not None and (not isinstance(options, dict) or not stream):
        raise BadRequest(
            "stream_options is an object, and only for stream: true.", param="stream_options"
        )
    for name in ("max_tokens", "max_completion_tokens", "n"):
        _check_count(fields, name)
    return ChatRequest(
        fields=fields,
        model=_model(fields),
        stream=stream,
        wants_usage=options is not None and options.get("include_usage") is True,
        choices=fields.get("n") or 1,
    )


def _model(fields: dict[str, Any]) -> str:
    model = fields.get("model")
    if not isinstance(model, str) or not model:
        raise BadRequest("model must name a model; GET /v1/models lists them.", param="model")
    return model


def _flag(fields: dict[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise BadRequest(f"{name} must be true or false.", param=name)
    return bool(value)


def _check_count(fields: dict[str, Any], name: str) -> None:
    value = fields.get(name)
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise BadRequest(f"{name} must be a whole number of at least 1.", param=name)


def _check_messages(messages: Any) -> None:
    if not isinstance(messages, list) or not messages:
        raise BadRequest("messages must be a list with at least one message.", param="messages")
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        if not isinstance(message, dict):
            raise BadRequest(f"{where} must be an object.", param=where)
        role = message.get("role")
        if not isinstance(role, str) or role not in ROLES:
            known = ", ".join(sorted(ROLES))
            raise BadRequest(f"{where}.role must be one of {known}.", param=f"{where}.role")
        _check_content(message, role, where)


def _check_content(message: dict[str, Any], role: str, where: str) -> None:
    content = message.get("content")
    if content is None and role == "assistant":
        return  # an assistant that only called tools
    if isinstance(content, str):
        return
    is_parts = isinstance(content, list) and all(
        isinstance(part, dict) and isinstance(part.get("type"), str) for part in content
    )
    if not is_parts:
        raise BadRequest(
            f"{where}.content must be text or a list of content parts.", param=f"{where}.content"
        )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _no_constant(name: str) -> float:
    raise ValueError(name)


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
