"""docs/configuration.md says what settings.py reads."""

from __future__ import annotations

import json
import re
import tomllib
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from docs import page
from edge_frontend import issuers, settings
from edge_frontend.issuers import Issuers
from edge_frontend.limits import Limits
from edge_frontend.routes import Route, RouteTable
from edge_frontend.settings import Settings
from edge_frontend.tenants import Tenants

MD = "configuration.md"
ROWS = page.table(MD, "Settings of the edge")
SPIN = tomllib.loads((Path(__file__).parents[2] / "edge-frontend/spin.toml").read_text())
DEFAULTS = {item.name: item.default for item in fields(Settings)}


def named(name: str) -> list[str]:
    (row,) = [row for row in ROWS if row[0] == settings.variable(name)]
    return row


def test_every_setting_has_a_row_in_both_spellings_and_in_order() -> None:
    both = [[settings.variable(name), "nearfar_" + name] for name in settings.names()]
    assert both == [row[:2] for row in ROWS]


@pytest.mark.parametrize("name", settings.names())
def test_a_default_is_that_of_the_code(name: str) -> None:
    default, shown = DEFAULTS[name], named(name)[2]
    if default is MISSING and name in settings._REQUIRED:
        assert "must be set" == shown
    elif default in ("", ()) or default is MISSING:
        assert "none" == shown
    else:
        assert str(default) == shown


@pytest.mark.parametrize("name", settings.names())
def test_a_secret_is_called_one(name: str) -> None:
    assert ("yes" if name in settings.SECRET_NAMES else "no") == named(name)[4]


@pytest.mark.parametrize(
    "name", [name for name in settings.names() if isinstance(DEFAULTS[name], int)]
)
def test_a_range_is_that_of_the_code(name: str) -> None:
    least, most = map(int, named(name)[3].split(" to "))
    read = settings._READERS[name]
    assert (least, most) == (read(str(least)), read(str(most)))
    for outside in (least - 1, most + 1):
        with pytest.raises(ValueError, match=f"from {least} to {most}$"):
            read(str(outside))


def test_the_templates_are_those_that_are_shipped() -> None:
    with pytest.raises(ValueError, match="must be one of") as caught:
        settings._template("none@0")
    assert str(caught.value).removeprefix("must be one of ") == named("template")[3]


def test_the_store_is_written_as_the_error_says() -> None:
    with pytest.raises(ValueError, match="must be redis") as caught:
        settings._store("x")
    said = str(caught.value).removeprefix("must be ").replace(" or ", ", ")
    assert said == named("store")[3]


def test_the_routes_that_are_shown_can_be_read_and_show_every_field() -> None:
    shown, *_ = re.findall(r"```json\n(.*?)```", page.text(MD), re.DOTALL)
    table = RouteTable.from_json(shown)
    assert set(json.loads(shown)) == {item.name for item in fields(RouteTable)}
    (entry,) = json.loads(shown)["models"].values()
    rows = page.table(MD, "Routes")
    assert list(entry) == [row[0] for row in rows]
    assert {item.name for item in fields(Route)} == {"name", *entry}
    (bare,) = RouteTable.from_json(
        '{"version":"1","upstreams":{"a":{"url":"http://a"}},"models":{"m":{"upstream":"a"}}}'
    ).models.values()  # fmt: skip
    defaults = {row[0]: row[1] for row in rows}
    assert ("unknown", "unknown", 0) == (bare.revision, bare.serving_hash, bare.context_tokens)
    assert ("unknown", "unknown", "unknown") == (
        defaults["revision"], defaults["serving_hash"], defaults["context_tokens"],
    )  # fmt: skip
    assert "a09a354" == next(iter(table.models.values())).revision


def test_the_issuers_that_are_shown_can_be_read_and_every_field_has_a_row() -> None:
    _, shown, _ = re.findall(r"```json\n(.*?)```", page.text(MD), re.DOTALL)
    (issuer,) = Issuers.from_json(shown).by_iss.values()
    assert ("https://login.example", ("nearfar",)) == (issuer.issuer, issuer.audiences)
    rows = {row[0]: row[1] for row in page.table(MD, "Issuers")}
    assert list(issuers._READERS) == list(rows)
    assert {*json.loads(shown)["login"], "jwks"} == set(rows)
    assert ", ".join(issuers.DEFAULT_ALGORITHMS) == rows["algorithms"]
    for name in issuers.CLAIMS:
        assert re.search(rf"\b{name}\b", page.section(MD, "Issuers"))


def test_the_tenants_that_are_shown_can_be_read() -> None:
    shown = re.findall(r"```json\n(.*?)```", page.text(MD), re.DOTALL)[-1]
    found = Tenants.from_json(shown)
    assert Limits(600, 100_000, 20, 50_000_000) == found.limits("acme")
    assert (Limits(rpm=60), Limits(par=50)) == (found.limits("login~acme"), found.limits("x"))


def test_the_guardrails_are_those_that_are_shipped() -> None:
    with pytest.raises(ValueError, match="must be one of") as caught:
        settings._guardrails("none@0")
    assert str(caught.value).removeprefix("must be one of ") == named("guardrails")[3]


def test_the_manifest_passes_every_setting_on_and_hides_the_secrets() -> None:
    passed = SPIN["component"]["edge"]["variables"]
    assert {"nearfar_" + name: f"{{{{ {name} }}}}" for name in settings.names()} == passed
    declared = SPIN["variables"]
    own = set(declared) - set(settings.names())
    assert all(f"`{name}`" in page.text(MD) for name in own)
    assert settings.SECRET_NAMES == {name for name, item in declared.items() if item.get("secret")}
    for name in set(settings.names()) - set(settings._REQUIRED):
        assert declared[name]["default"] in ("", "{}", "kv:default"), name
