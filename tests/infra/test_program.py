"""The deployment as a whole: what it tells, what a preview can say, what is secret."""

from __future__ import annotations

from collections import Counter

import pulumi
import pytest

from infra import given, whole
from infra.declared import declare
from nearfar_infra.errors import PinsError
from nearfar_infra.program import program
from nearfar_infra.sources import Sources

every = pytest.mark.parametrize("name", whole.KINDS)
SECRET = {"upstreamKey", "keySecret", "kubeconfig", "firstApiKey", "grafanaPassword"}


def exported(name: str) -> dict[str, bool]:
    """The names of the outputs, each with whether it is marked secret."""
    found: dict[str, bool] = {}

    async def look(values: dict[str, object]) -> str:
        for key, value in values.items():
            found[key] = isinstance(value, pulumi.Output) and await value.is_secret()
        return "looked"

    def build() -> object:
        settings = given.settings(**whole.KINDS[name])
        made = program(settings, given.sources(), whole.TOKEN)
        return look(dict(made.exported))

    declare(build)
    return found


def test_everything_that_an_operator_needs_is_told() -> None:
    told = set(exported("smallest"))
    addresses = {"chatUrl", "gpuUrl", "dashboards", "clusterId", "region", "model"}
    assert {*addresses, *SECRET, "tryNext"} == told


@pytest.mark.fault(25)
@pytest.mark.parametrize("name", ["smallest", "edge beside the model"])
def test_what_is_secret_is_told_as_a_secret_and_the_rest_is_not(name: str) -> None:
    assert SECRET == {key for key, secret in exported(name).items() if secret}


@pytest.mark.fault(25)
@every
def test_a_preview_declares_what_an_up_makes(name: str) -> None:
    def counted(*, preview: bool) -> Counter[str]:
        made = whole.whole(whole.KINDS[name], preview=preview)
        return Counter(one.type for one in made.resources)

    assert counted(preview=False) == counted(preview=True)


@every
def test_every_resource_has_a_name_of_its_own(name: str) -> None:
    seen = Counter((one.type, one.name) for one in whole.kind(name).resources)
    assert [] == [key for key, count in seen.items() if count > 1]


def test_without_a_digest_nothing_is_declared() -> None:
    unpinned = Sources(None, {})
    made = declare(lambda: _refused(unpinned))
    assert () == made.resources


def _refused(unpinned: Sources) -> None:
    with pytest.raises(PinsError):
        program(given.settings(), unpinned, whole.TOKEN)


@every
def test_the_token_reaches_the_provider_and_the_check_and_nothing_else(name: str) -> None:
    holders = {
        one.type for one in whole.kind(name).resources if whole.TOKEN in str(one.inputs.values())
    }
    assert {"pulumi:providers:linode", "nearfar:index:FirewallsAttached"} == holders


def test_the_provider_puts_the_version_of_the_api_behind_its_address_itself() -> None:
    provider = whole.kind("smallest").typed("providers:linode")[0].inputs
    assert ("https://api.linode.com", "v4") == (provider["url"], provider["apiVersion"])
    check = whole.kind("smallest").typed(":FirewallsAttached")[0].inputs
    assert "https://api.linode.com/v4" == check["api"]


def test_the_look_at_the_firewalls_can_be_left_out() -> None:
    assert not whole.whole({"firewallCheck": "false"}).typed(":FirewallsAttached")


@pytest.mark.fault(27)
def test_everything_inside_goes_before_what_waits_for_its_volumes() -> None:
    order = [one.type.rpartition(":")[2] for one in whole.kind("smallest").resources]
    assert order.index("VolumesGone") < order.index("Namespace")
