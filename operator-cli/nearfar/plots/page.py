"""One self-contained page: no script, nothing fetched, for light, dark, paper and phones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nearfar.plots import palette
from nearfar.plots.drawing import Picture, svg
from nearfar.plots.html import Markup, Piece, joined, tag

# Nothing may be loaded and no script may run, whatever text gets in.
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CSS = """
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.5 system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif}
main{max-width:60rem;margin:0 auto;padding:1.5rem 1rem 4rem}
h1{font-size:1.6rem;line-height:1.2;margin:.5rem 0 .25rem}
h2{font-size:1.2rem;margin:2.5rem 0 .25rem;padding-top:1rem;border-top:1px solid var(--grid)}
h1,h2,p,td,th,summary,figcaption{overflow-wrap:anywhere}
p,figcaption{color:var(--muted);margin:.25rem 0 .75rem;max-width:46rem}
figure{margin:0}
svg{display:block;width:100%;height:auto}
svg text{font-family:system-ui,-apple-system,"Segoe UI","DejaVu Sans",sans-serif!important}
.narrow{display:none}
.scroll{overflow-x:auto;margin:.5rem 0}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums;font-size:.9rem}
caption{text-align:left;color:var(--muted);padding:.25rem 0}
th,td{padding:.35rem .7rem .35rem 0;text-align:right;border-bottom:1px solid var(--grid);
vertical-align:top}
th:first-child{text-align:left;font-weight:600;min-width:7rem;overflow-wrap:break-word}
thead th{color:var(--muted);font-weight:600;white-space:nowrap}
td{white-space:nowrap}
.facts td{white-space:normal;text-align:left;min-width:10rem}
.facts thead th{text-align:left;white-space:normal}
details{margin:.5rem 0}
summary{cursor:pointer;color:var(--blue)}
.mind{border-left:4px solid var(--vermillion);padding:.25rem .75rem;color:var(--ink);margin:.5rem 0}
:focus-visible{outline:2px solid var(--blue);outline-offset:2px}
@media (max-width:40rem){.wide{display:none}.narrow{display:block}main{padding:1rem .75rem 3rem}}
@media print{.wide{display:block}.narrow{display:none}details>*{display:block}}
"""


@dataclass(frozen=True, slots=True)
class Section:
    """A heading, what stands under it, a picture where there is one, and its numbers."""

    title: str
    text: Piece
    picture: Picture | None
    numbers: Sequence[Markup]
    open: bool = False


def page(title: str, lead: Piece, minded: Sequence[str], sections: Sequence[Section]) -> str:
    """The whole page as HTML."""
    head = (
        '<meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"{tag('title', title)}<style>{palette.css()}{_CSS}</style>"
    )
    body = tag(
        "main",
        tag("h1", title),
        tag("p", lead),
        *(tag("p", each, class_="mind") for each in minded),
        *(_section(each) for each in sections),
    )
    return f'<!doctype html>\n<html lang="en"><head>{head}</head><body>{body}</body></html>\n'


def _section(section: Section) -> Markup:
    parts: list[Piece] = [tag("h2", section.title)]
    if section.text:
        parts.append(tag("p", section.text))
    if section.picture is not None:
        parts.append(_figure(section.picture))
    if section.numbers and section.picture is not None:
        opened = {"open": "open"} if section.open else {}
        parts.append(tag("details", tag("summary", "The numbers"), *section.numbers, **opened))
    else:
        parts += section.numbers
    return tag("section", *parts)


def _figure(picture: Picture) -> Markup:
    drawn = joined(
        tag("div", Markup(svg(picture, narrow=narrow)), class_="narrow" if narrow else "wide")
        for narrow in (False, True)
    )
    label = f"{picture.title}. {picture.says}"
    return tag(
        "figure", tag("div", drawn, role="img", aria_label=label), tag("figcaption", picture.says)
    )
