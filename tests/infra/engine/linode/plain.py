"""A kind of the account that needs no behaviour of its own: it keeps what it is given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nearfar_infra.plugin.kinds import Change, Found, KindError, Made, Values, changed

from . import sdk
from .account import Account, State

# What the real provider cannot change in place.
_REPLACES = {
    "LkeCluster": {"region", "aplEnabled", "tier", "stackType", "vpcId", "subnetId"},
    "LkeNodePool": {"clusterId", "type", "diskEncryption"},
    "FirewallDevice": {"firewallId", "entityId", "entityType"},
    "DomainRecord": {"domainId", "recordType"},
}


class Plain:
    """Create, read, update and delete one kind of thing in the account."""

    def __init__(self, token: str, account: Account) -> None:
        self.token, self.account = token, account
        self.kind = token.rpartition(":")[2]
        self._arguments = sdk.arguments(token)

    def check(self, news: Values) -> tuple[Values, Mapping[str, str]]:
        found = sdk.problems(self._arguments, news)
        return news, found or self.rules(news)

    def rules(self, news: Values) -> dict[str, str]:
        """What the API refuses beyond the SDK's types."""
        return {}

    def diff(self, outputs: Values, olds: Values, news: Values) -> Change:
        names = changed(olds, news)
        fixed = _REPLACES.get(self.kind, set())
        return Change(names, tuple(name for name in names if name in fixed))

    def create(self, inputs: Values) -> Made:
        self._called("create")
        with self.account.open() as state:
            number = state.add(self.kind, dict(inputs))
            self.made(state, number)
            return Made(number, self.outputs(state, number))

    def read(self, id_: str, outputs: Values) -> Found | None:
        with self.account.open() as state:
            thing = state.of(self.kind).get(id_)
            if thing is None:
                return None
            return Found(self.outputs(state, id_), self.inputs(state, id_))

    def update(self, id_: str, outputs: Values, news: Values) -> Values:
        self._called("update")
        with self.account.open() as state:
            if id_ not in state.of(self.kind):
                raise KindError(f"{self.kind} {id_} is not there.", "run `pulumi refresh`.")
            state.of(self.kind)[id_] = dict(news)
            self.made(state, id_)
            return self.outputs(state, id_)

    def delete(self, id_: str, outputs: Values) -> None:
        self._called("delete")
        with self.account.open() as state:
            self.gone(state, id_)
            state.of(self.kind).pop(id_, None)

    def made(self, state: State, number: str) -> None:
        """Do what a new or changed thing brings with it."""

    def gone(self, state: State, number: str) -> None:
        """Do what the end of a thing takes with it."""

    def outputs(self, state: State, number: str) -> dict[str, Any]:
        """Everything that Pulumi keeps of a thing."""
        return self.inputs(state, number)

    def inputs(self, state: State, number: str) -> dict[str, Any]:
        """What would have to be given to have the thing as it is."""
        return dict(state.of(self.kind)[number])

    def _called(self, verb: str) -> None:
        """Note the call, and let it fail if it is to: before anything is done."""
        call = f"{verb} {self.kind}"
        with self.account.open() as state:
            state.calls.append(call)
            fails = state.fails(call)
        if fails:
            raise KindError(f"[500] {call}: internal error of the account's API.", "try again.")


def address(number: str) -> dict[str, str]:
    """Address and host name of a NodeBalancer, from RFC 5737's block for documentation."""
    ipv4 = f"203.0.113.{int(number) % 250 + 1}"
    return {"ipv4": ipv4, "hostname": f"{ipv4.replace('.', '-')}.ip.linodeusercontent.com"}
