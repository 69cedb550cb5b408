"""docs/deploy.md and docs/compared.md, and the code that they speak of."""

from __future__ import annotations

import re

import pytest

from nearfar import deploy_check
from nearfar.__main__ import COMMANDS
from nearfar_infra import flows, names, rules
from nearfar_infra.fields import FIELDS

from .page import DOCS, section, table, text

PAGES = ("deploy.md", "compared.md")


def test_the_table_of_flows_is_the_one_in_code() -> None:
    expected = [
        [
            flow.name,
            ", ".join(flow.methods),
            ", ".join(flow.paths) or "all",
            flow.credential,
            f"{flow.namespace}/{flow.service}:{flow.port}",
        ]
        for flow in flows.FLOWS
    ]
    assert expected == table("deploy.md", "Flows from the edge to the cluster")


def test_redis_is_no_flow() -> None:
    assert names.STORE not in {flow.namespace for flow in flows.FLOWS}


def test_the_scopes_are_those_that_the_doctor_looks_for() -> None:
    rows = dict(table("deploy.md", "The token's scopes"))
    assert set(deploy_check.SCOPES) | {deploy_check.DOMAIN_SCOPE} == set(rows)
    looked_for = {scope: why.replace("`", "") for scope, why in deploy_check.SCOPES.items()}
    assert looked_for == {scope: rows[scope] for scope in deploy_check.SCOPES}


def test_every_target_of_the_edge_is_described() -> None:
    rows = table("deploy.md", "Where the edge runs")
    assert list(rules.EDGE_TARGETS) == [row[0] for row in rows]


@pytest.mark.parametrize("page", PAGES)
def test_every_command_on_a_page_exists(page: str) -> None:
    used = set(re.findall(r"nearfar ([a-z]+)(?= --| pin|`|\n| \")", text(page)))
    assert used <= set(COMMANDS), used


@pytest.mark.parametrize("page", PAGES)
def test_every_link_leads_somewhere(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", text(page)):
        name, _, anchor = target.partition("#")
        linked = (DOCS / name).read_text() if name else text(page)
        heads = re.findall(r"^#+ (.+)$", linked, re.MULTILINE)
        slugs = {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}
        assert not anchor or anchor in slugs, target


def test_the_settings_that_a_person_must_set_are_those_without_default() -> None:
    needed = {key for key, field in FIELDS.items() if field.required}
    steps = section("deploy.md", "From an empty account to an answer")
    assert needed == {key for key in FIELDS if re.search(rf"config set .*\b{key}\b", steps)}
