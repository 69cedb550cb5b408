"""Random secrets."""

from __future__ import annotations

from nearfar_infra.plugin.random_secret import RandomSecret

KIND = RandomSecret()


def test_two_secrets_are_never_the_same_and_have_256_bits() -> None:
    first, second = (KIND.create({"generation": 1}).outputs["value"] for _ in range(2))
    assert first != second
    assert 43 == len(first)


def test_a_secret_stays_until_its_generation_changes() -> None:
    made = KIND.create({"generation": 1})
    assert () == KIND.diff(made.outputs, {"generation": 1}, {"generation": 1}).properties
    change = KIND.diff(made.outputs, {"generation": 1}, {"generation": 2})
    assert (("generation",), ()) == (change.properties, change.replaces)


def test_another_generation_keeps_the_one_before_it_and_no_more() -> None:
    first = KIND.create({"generation": 1})
    assert "" == first.outputs["previous"]
    second = KIND.update(first.id, first.outputs, {"generation": 2})
    assert first.outputs["value"] == second["previous"]
    third = KIND.update(first.id, second, {"generation": 3})
    assert second["value"] == third["previous"]
    assert 3 == len({first.outputs["value"], second["value"], third["value"]})


def test_the_named_output_is_no_input() -> None:
    inputs, problems = KIND.check({"generation": 1, "value": None, "previous": None})
    assert ({"generation": 1}, {}) == (inputs, problems)
