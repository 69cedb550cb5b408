"""What the plugin waits for: volumes that go, firewalls that come; over real HTTP."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

import pytest

from nearfar_infra.plugin import kube
from nearfar_infra.plugin.firewalls_attached import FirewallsAttached
from nearfar_infra.plugin.kinds import KindError, Values
from nearfar_infra.plugin.volumes_gone import PATH, VolumesGone

TOKEN = "canary-linode-token"
DROPS = {"id": 1, "status": "enabled", "rules": {"inbound_policy": "DROP"}}


@dataclass
class Api:
    """A fake of an API that answers JSON by path; each answer may change with every call."""

    answers: dict[str, Callable[[], Any]] = field(default_factory=dict)
    asked: list[tuple[str, str | None]] = field(default_factory=list)
    address: str = ""

    def listed(self, path: str, *items: Mapping[str, Any]) -> None:
        """A page of Linode's kind."""
        self.answers[path] = lambda: {"data": list(items), "page": 1, "pages": 1}


@pytest.fixture
def api() -> Iterator[Api]:
    fake = Api()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            path = urlsplit(self.path).path
            fake.asked.append((path, self.headers.get("authorization")))
            body = json.dumps(fake.answers[path]()).encode() if path in fake.answers else b"{}"
            self.send_response(200 if path in fake.answers else 500)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    fake.address = f"http://127.0.0.1:{server.server_address[1]}"
    yield fake
    server.shutdown()
    thread.join()
    server.server_close()


def kubeconfig(server: str, **user: str) -> str:
    return json.dumps(
        {
            "current-context": "it",
            "contexts": [{"name": "it", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": server}}],
            "users": [{"name": "u", "user": {"token": "kube-token", **user}}],
        }
    )


def volume(name: str, policy: str = "Delete") -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {"persistentVolumeReclaimPolicy": policy}}


def volumes(api: Api, seconds: int = 60) -> Values:
    return {"kubeconfig": kubeconfig(api.address), "seconds": seconds}


@pytest.mark.fault(27)
def test_the_cluster_is_held_back_until_its_last_volume_is_gone(api: Api) -> None:
    left = [[volume("pvc-1"), volume("pvc-2")], [volume("pvc-2")], []]
    api.answers[PATH] = lambda: {"items": left.pop(0)}
    paused: list[float] = []
    VolumesGone(paused.append).delete("volumes-gone", volumes(api))
    assert 2 == len(paused)
    assert {(PATH, "Bearer kube-token")} == set(api.asked)


@pytest.mark.fault(27)
def test_volumes_that_do_not_go_are_named_and_end_the_destroy(api: Api) -> None:
    api.answers[PATH] = lambda: {"items": [volume("pvc-7"), volume("kept", "Retain")]}
    with pytest.raises(KindError, match="pvc-7") as failed:
        VolumesGone(lambda _: None).delete("volumes-gone", volumes(api, seconds=0))
    assert "kept" not in str(failed.value)
    assert "leftovers" in failed.value.next_step


def test_an_api_server_that_does_not_answer_holds_the_cluster_too(api: Api) -> None:
    with pytest.raises(KindError, match="does not answer"):
        VolumesGone(lambda _: None).delete("volumes-gone", volumes(api, seconds=0))


def test_a_new_kubeconfig_is_taken_and_nothing_is_replaced(api: Api) -> None:
    change = VolumesGone().diff(
        {}, {"kubeconfig": "a", "seconds": 1}, {"kubeconfig": "b", "seconds": 1}
    )
    assert (("kubeconfig",), ()) == (change.properties, change.replaces)


@pytest.mark.parametrize("text", ["", "nothing: here", "a: [", "current-context: it\ncontexts: []"])
def test_a_kubeconfig_that_is_none_is_one_line(text: str) -> None:
    with pytest.raises(KindError, match="is not one"):
        kube.read(text, PATH)


def test_a_server_that_asks_not_to_be_checked_is_refused() -> None:
    known = json.loads(kubeconfig("https://127.0.0.1:1"))
    known["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = True
    with pytest.raises(KindError, match="is not one"):
        kube.read(json.dumps(known), PATH)


def test_a_certificate_authority_that_is_none_is_one_line() -> None:
    known = json.loads(kubeconfig("https://127.0.0.1:1"))
    authority = base64.b64encode(b"nothing").decode()
    known["clusters"][0]["cluster"]["certificate-authority-data"] = authority
    with pytest.raises(KindError, match="is not one"):
        kube.read(json.dumps(known), PATH)


def firewalls(api: Api, seconds: int = 60) -> Values:
    return {
        "api": api.address,
        "token": TOKEN,
        "clusterId": "4711",
        "address": "203.0.113.9",
        "watched": [],
        "seconds": seconds,
    }


def guarded(api: Api) -> None:
    api.listed(
        "/nodebalancers", {"id": 5, "ipv4": "198.51.100.1"}, {"id": 6, "ipv4": "203.0.113.9"}
    )
    api.listed("/nodebalancers/6/firewalls", DROPS)
    nodes: list[Mapping[str, Any]] = [
        {"nodes": [{"instance_id": 70}, {"instance_id": None}]},
        {"nodes": [{"instance_id": 71}]},
    ]
    api.listed("/lke/clusters/4711/pools", *nodes)
    api.listed("/linode/instances/70/firewalls", DROPS)
    api.listed("/linode/instances/71/firewalls", DROPS)


def test_an_up_goes_on_when_nodebalancer_and_every_node_are_guarded(api: Api) -> None:
    guarded(api)
    made = FirewallsAttached(lambda _: None).create(firewalls(api))
    assert "firewalls-4711" == made.id
    assert {f"Bearer {TOKEN}"} == {credential for _, credential in api.asked}


NAKED: tuple[tuple[str, tuple[Mapping[str, Any], ...], str], ...] = (
    ("/nodebalancers", (), "no NodeBalancer with the address 203.0.113.9"),
    ("/nodebalancers/6/firewalls", (), "NodeBalancer 6"),
    ("/nodebalancers/6/firewalls", ({**DROPS, "status": "disabled"},), "NodeBalancer 6"),
    ("/linode/instances/71/firewalls", (), "Node 71"),
    (
        "/linode/instances/70/firewalls",
        ({**DROPS, "rules": {"inbound_policy": "ACCEPT"}},),
        "Node 70",
    ),
)


@pytest.mark.parametrize(("path", "items", "told"), NAKED)
def test_what_is_not_guarded_is_named_and_fails_the_up(
    api: Api, path: str, items: tuple[Mapping[str, Any], ...], told: str
) -> None:
    guarded(api)
    api.listed(path, *items)
    with pytest.raises(KindError, match=told) as failed:
        FirewallsAttached(lambda _: None).create(firewalls(api, seconds=-1))
    assert TOKEN not in str(failed.value)


def test_a_controller_that_takes_its_time_is_waited_for(api: Api) -> None:
    guarded(api)
    late = [[], [], [DROPS]]
    api.answers["/nodebalancers/6/firewalls"] = lambda: {
        "data": late.pop(0) if len(late) > 1 else late[0],
        "pages": 1,
    }
    paused: list[float] = []
    FirewallsAttached(paused.append).create(firewalls(api))
    assert 2 == len(paused)


def test_an_api_that_does_not_answer_is_told_without_the_token(api: Api) -> None:
    with pytest.raises(KindError, match="500 for /nodebalancers") as failed:
        FirewallsAttached(lambda _: None).create(firewalls(api, seconds=-1))
    assert TOKEN not in str(failed.value)


def test_every_page_of_a_list_is_read(api: Api) -> None:
    guarded(api)
    pages = [
        {"data": [{"id": 5, "ipv4": "198.51.100.1"}], "pages": 2},
        {"data": [{"id": 6, "ipv4": "203.0.113.9"}], "pages": 2},
    ]
    api.answers["/nodebalancers"] = lambda: pages.pop(0)
    FirewallsAttached(lambda _: None).create(firewalls(api, seconds=-1))
    assert not pages


def test_a_new_token_is_no_reason_to_look_again(api: Api) -> None:
    olds = firewalls(api)
    kind = FirewallsAttached()
    assert () == kind.diff(olds, olds, {**olds, "token": "another"}).properties
    assert ("watched",) == kind.diff(olds, olds, {**olds, "watched": ["x"]}).properties
