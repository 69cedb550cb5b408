"""`python -m nearfar_infra preview|up|destroy|project`, behind `just preview|deploy|destroy`.

Progress goes to stderr; the result is one JSON object on stdout. Exit codes are nearfar's: 0 done,
2 the configuration is wrong, 3 a program is missing or the engine failed, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence

from nearfar_infra import project
from nearfar_infra.errors import InfraError

EXAMPLES = """examples:
  python -m nearfar_infra preview --stack dev
  python -m nearfar_infra up --stack dev
  python -m nearfar_infra destroy --stack dev
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; what is wrong is one line and the next step."""
    asked = _parser().parse_args(argv)
    try:
        if asked.command == "project":
            project.FILE.write_text(project.text(), encoding="utf-8")
            return 0
        return _engine(asked.command, asked.stack)
    except InfraError as error:
        _say(f"nearfar: {error.message}\nNext step: {error.next_step}")
        return error.exit_code
    except KeyboardInterrupt:
        return 130


def _engine(command: str, name: str) -> int:
    from nearfar_infra import run  # Pulumi takes a second to import

    began = time.monotonic()
    chosen = run.select(name)
    if command != "destroy":  # what is there can go, whatever is wrong with what should be
        run.prepare(chosen)
    counted = {"preview": run.preview, "up": run.up, "destroy": run.destroy}[command](chosen, _say)
    seconds = round(time.monotonic() - began, 1)
    told = {"command": command, "stack": name, "resources": dict(counted), "seconds": seconds}
    sys.stdout.write(json.dumps(told) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="nearfar_infra",
        description="Deploy both halves with Pulumi's engine and an inline program.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("preview", "up", "destroy", "project"))
    parser.add_argument("--stack", default="dev", help="the stack's name (dev)")
    return parser


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
