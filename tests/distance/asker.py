"""The user: asks one path cached and new questions, on new connections and on used ones.

    python -m tests.distance.asker '{"host", "port", "key", "repeats", "tag"}'

Every question of a round is new to the path once and known to it then. Prints one JSON object:
the samples, each `{"answer": "cached|model's", "connection": "new|reused", "connect_ms",
"first_content_ms"}`, of which `first_content_ms` counts from the connection's beginning where it is
new, and what went otherwise than asked, in words.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from edge_frontend import sse
from nearfar.placement.address import Address
from nearfar.placement.dial import Line

PATH = "/v1/chat/completions"
# An answer is kept after its reply has gone, without the client's waiting for it.
KEPT_S = 0.1


def main() -> None:
    """Ask `repeats` rounds."""
    job = json.loads(sys.argv[1])
    samples, wrong = list[dict[str, Any]](), list[str]()
    address = Address(secure=False, host=job["host"], port=job["port"], base="")
    for number in range(job["repeats"]):
        for sample in round_of(address, job["key"], f"{job['tag']} {number}"):
            expected = "miss" if sample["answer"] == "model's" else "hit"
            if sample["x_cache"] == expected:
                samples.append(sample)
            else:
                wrong.append(f"{sample['answer']}: status {sample['status']}, {sample['x_cache']}")
    print(json.dumps({"samples": samples, "wrong": wrong}))


def round_of(address: Address, key: str, question: str) -> list[dict[str, Any]]:
    """A miss and a hit on a new connection each, then both on a connection that was used."""
    found = []
    with Line(address) as line:
        found.append(ask(line, key, f"{question} a", "model's", new=True))
        found.append(ask(line, key, f"{question} b", "model's", new=False))
    time.sleep(KEPT_S)
    with Line(address) as line:
        found.append(ask(line, key, f"{question} a", "cached", new=True))
        found.append(ask(line, key, f"{question} b", "cached", new=False))
    return found


def ask(line: Line, key: str, text: str, answer: str, *, new: bool) -> dict[str, Any]:
    """One streamed question, read to its end."""
    messages = [{"role": "user", "content": text}]
    body = {"model": "mock", "messages": messages, "temperature": 0, "stream": True}
    headers = {"authorization": f"Bearer {key}", "content-type": "application/json"}
    stream = line.stream(PATH, headers, json.dumps(body).encode())
    parser, first_ms = sse.Parser(), None
    while True:
        data, at_ms = stream.pieces()
        if not data:
            break
        if first_ms is None and any(has_content(payload) for payload in parser.feed(data)):
            first_ms = at_ms
    before_ms = line.opening.connect_ms if new else 0.0
    return {
        "answer": answer,
        "connection": "new" if new else "reused",
        "connect_ms": line.opening.connect_ms if new else None,
        "first_content_ms": None if first_ms is None else first_ms + before_ms,
        "status": stream.status,
        "x_cache": stream.headers.get("x-cache"),
    }


def has_content(payload: bytes) -> bool:
    """Whether an event has text of the answer."""
    if payload == sse.DONE:
        return False
    choices = json.loads(payload).get("choices") or [{}]
    return bool((choices[0].get("delta") or {}).get("content"))


if __name__ == "__main__":
    main()
