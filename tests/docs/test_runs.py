"""docs/runs.md names every field of a run, and none that there is not."""

from __future__ import annotations

from dataclasses import fields

import pytest

from docs import page
from nearfar.runs import SCHEMA, Header, Sample


@pytest.mark.parametrize(
    ("heading", "kind"), [("Line 1: `header`", Header), ("Further lines: `request`", Sample)]
)
def test_the_page_has_every_field_in_the_order_of_the_file(heading: str, kind: type) -> None:
    named = [name for row in page.table("runs.md", heading) for name in row[0].split(", ")]
    assert [field.name for field in fields(kind)] == named


def test_the_page_names_the_form() -> None:
    assert SCHEMA == page.table("runs.md", "Line 1: `header`")[0][1]
