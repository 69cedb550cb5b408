"""The command `nearfar`: finds the sub-command, and turns failures into one line and a code."""

from __future__ import annotations

import importlib
import os
import sys

import click

from nearfar import __version__, console
from nearfar.errors import NearfarError

# Command → one line for the overview. Only the module of the command that runs is imported.
COMMANDS = {
    "up": "Start the whole stack on this machine, in the foreground.",
    "status": "Show whether the local stack runs, and where.",
    "down": "Stop the local stack.",
    "chat": "Chat with a model through the edge.",
    "trace": "Draw where the time of one request went.",
    "bench": "Put a load on an edge, and say what its users got.",
    "compare": "Compare two runs or deployments; say what explains it.",
    "report": "Draw recorded runs into one page of pictures and tables.",
    "roundtrip": "Time the ways from here to the edge, and on to the GPU.",
    "coldstart": "Take starts apart, and set three placements side by side.",
    "keys": "Create, list, revoke and rotate API keys.",
    "usage": "Show what each tenant and key used.",
    "build": "Build the edge component if its source changed.",
    "budget": "Count what a model needs of a GPU.",
    "doctor": "Check this machine, or whether a deployment can work.",
    "cost": "Count what a deployment costs, before anything is created.",
    "images": "List or pin the container images of a deployment.",
    "leftovers": "List what a destroyed deployment left behind.",
    "test": "Run the whole test suite.",
}

# Found, and not listed: what works on the project rather than with it.
HIDDEN = ("bench-edge",)

HELP = """Run nearfar on this machine, and talk to it anywhere.

Results go to stdout, progress to stderr; every command knows --json.

\b
Exit codes:
  0    done
  1    it ran and failed
  2    the command line, or a file that it names, is wrong
  3    a part of the stack is missing, dead or does not answer
  130  interrupted (ctrl-C)

\b
Examples:
  nearfar up --ask "Why is the sky blue?"
  nearfar up --upstream http://127.0.0.1:8000 --model my-model
  nearfar trace "Name three rivers."
"""


class Commands(click.Group):
    """A group that imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS and cmd_name not in HIDDEN:
            return None
        module = importlib.import_module(f"nearfar.commands.{cmd_name.replace('-', '_')}")
        found: click.Command = module.command
        return found

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))


@click.group(
    cls=Commands,
    help=HELP,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, prog_name="nearfar")
def cli() -> None: ...


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    try:
        code = cli.main(argv, prog_name="nearfar", standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as wanted:
        click.echo(wanted.format_message(), err=True)
        return 2
    except click.ClickException as wrong:
        step = (
            f"{wrong.ctx.command_path} --help"
            if isinstance(wrong, click.UsageError) and wrong.ctx
            else ""
        )
        console.error(NearfarError(wrong.format_message(), step))
        return 2
    except NearfarError as problem:
        console.error(problem)
        return problem.exit_code
    except (click.Abort, KeyboardInterrupt):
        return 130
    except BrokenPipeError:
        # Who read our output has gone; nothing more can be said there.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return code if isinstance(code, int) else 0


if __name__ == "__main__":
    sys.exit(main())
