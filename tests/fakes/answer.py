"""The fake's whole answer as one JSON body, and the parts that a stream shares with it."""

import json
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from .ask import Ask, pieces_of
from .script import Script

# Stand where a request's own id and time go, so that rendered answers can be kept.
ID = "chatcmpl-" + "0" * 24 + "fakefake"
CREATED = 1000000001


@lru_cache(maxsize=256)
def render_body(ask: Ask, script: Script) -> bytes:
    """The whole answer as one JSON body, with the null fields that vLLM 0.32 writes out."""
    n = choices_of(ask, script)
    body: dict[str, Any] = {
        "id": ID,
        "object": "chat.completion",
        "created": CREATED,
        "model": ask.model,
        "choices": [_choice(ask, script, index) for index in range(n)],
        "service_tier": None,
        "system_fingerprint": None,
        "usage": usage_of(ask, script),
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "prompt_text": None,
        "kv_transfer_params": None,
        "ec_transfer_params": None,
        "metrics": dict(script.metrics) if script.metrics is not None and n == 1 else None,
    }
    return json.dumps({**body, **(script.extra or {})}, ensure_ascii=False).encode()


def choices_of(ask: Ask, script: Script) -> int:
    """How many choices the answer has."""
    return script.n or ask.n


def finish_reason_of(ask: Ask, script: Script) -> str:
    """`length` exactly when the request's own bound cut the answer."""
    if script.finish_reason is not None:
        return script.finish_reason
    if script.tool_calls:
        return "tool_calls"
    return "length" if ask.max_tokens and len(pieces_of(ask, script)) == ask.max_tokens else "stop"


def usage_of(ask: Ask, script: Script) -> dict[str, Any]:
    """The usage object: one delta is one token, one word of the prompt is one token."""
    if script.usage is not None:
        return dict(script.usage)
    calls = sum(len(tool_call_deltas(script, i)) for i in range(len(script.tool_calls)))
    tokens = len(script.reasoning) + len(pieces_of(ask, script)) + calls
    completion = tokens * choices_of(ask, script)
    return {
        "prompt_tokens": ask.prompt_tokens,
        "total_tokens": ask.prompt_tokens + completion,
        "completion_tokens": completion,
    }


def tool_call_deltas(script: Script, index: int) -> list[dict[str, Any]]:
    """The deltas of one tool call: its name first, then its arguments in two parts."""
    name, arguments = script.tool_calls[index]
    half = len(arguments) // 2
    head = {"id": f"call_{index}", "type": "function", "index": index}
    parts = [part for part in (arguments[:half], arguments[half:]) if part]
    return [
        {**head, "function": {"name": name, "arguments": ""}},
        *({"index": index, "function": {"arguments": part}} for part in parts),
    ]


def logprobs_of(ask: Ask, pieces: Sequence[str]) -> dict[str, Any] | None:
    """The logprobs object over these tokens, or null when it was not asked for."""
    if not ask.logprobs:
        return None
    tokens = [
        {"token": piece, "logprob": -0.5, "bytes": list(piece.encode()), "top_logprobs": []}
        for piece in pieces
    ]
    return {"content": tokens}


def model_list(models: tuple[str, ...], created: int) -> bytes:
    """The answer to GET /v1/models (vLLM 0.32's ModelList)."""
    cards: list[dict[str, Any]] = [
        {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "vllm",
            "root": name,
            "parent": None,
            "max_model_len": 2048,
            "permission": [],
        }
        for name in models
    ]
    return json.dumps({"object": "list", "data": cards}).encode()


def _choice(ask: Ask, script: Script, index: int) -> dict[str, Any]:
    pieces = pieces_of(ask, script, index)
    return {
        "index": index,
        "message": _message(script, pieces),
        "logprobs": logprobs_of(ask, pieces),
        "finish_reason": finish_reason_of(ask, script),
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }


def _message(script: Script, pieces: Sequence[str]) -> dict[str, Any]:
    calls = [
        {"id": f"call_{i}", "type": "function", "function": {"name": name, "arguments": text}}
        for i, (name, text) in enumerate(script.tool_calls)
    ]
    return {
        "role": "assistant",
        "content": "".join(pieces) if pieces or not calls else None,
        "refusal": None,
        "annotations": None,
        "audio": None,
        "function_call": None,
        **({"tool_calls": calls} if calls else {}),
        "reasoning": "".join(script.reasoning) or None,
    }
