"""nearfar report: a page of pictures and tables of recorded runs."""

from __future__ import annotations

from pathlib import Path

import click

from nearfar import console, runs
from nearfar.errors import BadInput

HELP = """Draw recorded runs into one page of HTML: latency distributions, where the time went, the
timeline, goodput against load, and the same numbers in tables.

The page loads nothing and runs no script; it can be mailed and opened anywhere. --png draws the
pictures as files beside it too.

\b
Examples:
  nearfar report .nearfar/runs/RUN.jsonl
  nearfar report rate1.jsonl rate2.jsonl rate4.jsonl --out rates.html --png
  nearfar report before.jsonl after.jsonl --title "Before and after the new template"
"""
DEFAULT = Path("report.html")


@click.command("report", help=HELP)
@click.argument("files", metavar="RUN...", nargs=-1, required=True)
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=DEFAULT,
    show_default=True,
    help="The page's file. One that is there is replaced.",
)
@click.option("--png", "as_png", is_flag=True, help="Draw each picture into a PNG file too.")
@click.option("--title", default="Runs of nearfar", show_default=True, help="The page's heading.")
@click.option("--json", "as_json", is_flag=True, help="Print the files' names as JSON.")
def command(files: tuple[str, ...], out: Path, as_png: bool, title: str, as_json: bool) -> None:
    from nearfar.plots import report  # matplotlib takes a second to import

    read = [runs.read(Path(name)) for name in files]
    empty = [name for name, run in zip(files, read, strict=True) if not run.measured]
    if empty:
        raise BadInput(
            f"{', '.join(empty)}: no request after the warm-up.", "leave it out, or measure again."
        )
    page = report.render(read, title)
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page, encoding="utf-8")
        drawn = report.write_png(read, out.with_suffix("")) if as_png else ()
    except OSError as error:
        raise BadInput(
            f"{out} cannot be written ({error.strerror}).", "name another file with --out."
        ) from None
    if as_json:
        console.result_json({"page": str(out), "png": [str(path) for path in drawn]})
        return
    for path in (out, *drawn):
        console.result(str(path))
