"""Asks one version of the edge a question from inside the cluster, before clients are led to it.

Tries until an answer with text comes: exit code 0. A refused key or model is told at once: 2.
Needs nothing but Python; it is handed to `python -c` as text.
"""

from __future__ import annotations

import json
import os
import sys
import time
import urllib.error
import urllib.request

PAUSE_S = 5
# What waiting does not help.
LAST = {400: "model", 401: "key", 403: "key", 404: "model"}


def ask(url: str, key: str, model: str) -> str:
    """Return the answer's text."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "Say hello in one word."}],
        "temperature": 0,
        "max_tokens": 16,
    }
    request = urllib.request.Request(  # noqa: S310 - the address is the program's own
        f"{url}/v1/chat/completions",
        json.dumps(body).encode(),
        {"authorization": f"Bearer {key}", "content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=90) as response:  # noqa: S310
        document = json.load(response)
    text: str = document["choices"][0]["message"]["content"]
    return text


def main() -> int:
    url, key, model = (os.environ[name] for name in ("URL", "KEY", "MODEL"))
    while True:
        try:
            if ask(url, key, model).strip():
                print("the edge answered")
                return 0
            why = "stage 'answer': the answer was empty"
        except urllib.error.HTTPError as error:
            stage = LAST.get(error.code, "model server")
            why = f"stage '{stage}': the edge answered {error.code}"
            if error.code in LAST:
                print(why, file=sys.stderr)
                return 2
        except (OSError, ValueError, LookupError) as error:
            why = f"stage 'edge': {type(error).__name__}"
        print(why, file=sys.stderr, flush=True)
        time.sleep(PAUSE_S)


if __name__ == "__main__":
    sys.exit(main())
