"""How the components are written, read from their source."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from nearfar_infra.project import INFRA

SOURCES = sorted((INFRA / "nearfar_infra").rglob("*.py"))
COMPONENTS = sorted((INFRA / "nearfar_infra" / "components").glob("*.py"))
# What runs before or without Pulumi: the command line reads it too.
PLAIN = (
    *("config", "errors", "fields", "flows", "names", "peers", "plans", "policies", "project"),
    *("rules", "served", "settings", "sources", "stack", "values", "versions", "pinning"),
)


def classes(path: Path) -> list[ast.ClassDef]:
    tree = ast.parse(path.read_text("utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]


def component_classes() -> list[tuple[Path, ast.ClassDef]]:
    return [
        (path, made)
        for path in COMPONENTS
        for made in classes(path)
        if any("ComponentResource" in ast.unparse(base) for base in made.bases)
    ]


FOUND = component_classes()
each = pytest.mark.parametrize(("path", "made"), FOUND, ids=[made.name for _, made in FOUND])


def constructor(made: ast.ClassDef) -> ast.FunctionDef:
    [found] = [
        one for one in made.body if isinstance(one, ast.FunctionDef) and one.name == "__init__"
    ]
    return found


def test_there_are_components() -> None:
    assert 15 <= len(FOUND)


@each
def test_no_constructor_is_longer_than_sixty_lines(path: Path, made: ast.ClassDef) -> None:
    init = constructor(made)
    assert 60 >= (init.end_lineno or 0) - init.lineno + 1


@each
def test_every_component_takes_typed_arguments_and_registers_its_outputs(
    path: Path, made: ast.ClassDef
) -> None:
    init = constructor(made)
    assert ["self", "name", "args", "opts"] == [one.arg for one in init.args.args]
    assert "register_outputs" in ast.unparse(init)
    assert f'"nearfar:components:{made.name}"' in path.read_text("utf-8")


@pytest.mark.parametrize("path", COMPONENTS, ids=lambda path: path.stem)
def test_every_resource_of_a_component_has_it_as_its_parent(path: Path) -> None:
    tree = ast.parse(path.read_text("utf-8"))
    for call in (node for node in ast.walk(tree) if isinstance(node, ast.Call)):
        if ast.unparse(call.func) in ("ResourceOptions", "pulumi.ResourceOptions"):
            given = {keyword.arg for keyword in call.keywords}
            assert "parent" in given or given <= {
                "additional_secret_outputs",
                "ignore_changes",
                "aliases",
                "custom_timeouts",
            }, f"{path.name}:{call.lineno}"


@pytest.mark.parametrize("name", PLAIN)
def test_what_checks_a_configuration_does_without_pulumi(name: str) -> None:
    text = (INFRA / "nearfar_infra" / f"{name}.py").read_text("utf-8")
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert not [one for one in imported if one and one.startswith("pulumi")]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(INFRA)))
def test_no_number_has_a_default_by_or(path: Path) -> None:
    """`value or 3` takes 0 for nothing."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.BoolOp) and isinstance(node.op, ast.Or):
            last = node.values[-1]
            number = isinstance(last, ast.Constant) and type(last.value) in (int, float)
            assert not number, f"{path.name}:{node.lineno}"
