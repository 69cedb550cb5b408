"""The way in: NodeBalancer, firewalls, certificates, routes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from infra import given, whole
from infra.declared import ADDRESS, HOSTNAME, Program
from nearfar_infra import flows, names
from nearfar_infra.components.front import ANNOTATION
from nearfar_infra.components.ingress import RESOLVER
from nearfar_infra.components.routes import middlewares

every = pytest.mark.parametrize("name", whole.KINDS)


def front(program: Program) -> dict[str, Any]:
    return program.one("Service", "front").inputs


def asked(program: Program, what: str) -> str:
    return str(front(program)["metadata"]["annotations"][ANNOTATION + what])


def routes(program: Program) -> dict[str, dict[str, Any]]:
    return {one.called: one.inputs["spec"] for one in program.typed(":IngressRoute")}


def values(program: Program) -> dict[str, Any]:
    found: dict[str, Any] = program.release("traefik").inputs["values"]
    return found


@every
def test_the_only_port_to_the_world_is_443(name: str) -> None:
    program = whole.kind(name)
    assert [443] == [port["port"] for port in front(program)["spec"]["ports"]]
    assert values(program)["service"]["enabled"] is False
    assert values(program)["ports"]["web"]["expose"]["default"] is False


def test_the_nodebalancer_s_firewall_lets_in_who_is_named_and_drops_the_rest() -> None:
    acl = json.loads(asked(whole.kind("domain"), "firewall-acl"))
    assert {"allowList": {"ipv4": ["198.51.100.0/24"], "ipv6": ["2001:db8::/32"]}} == acl


def test_without_named_sources_the_firewall_is_there_and_opens_443_to_all() -> None:
    acl = json.loads(asked(whole.kind("smallest"), "firewall-acl"))
    assert {"allowList": {"ipv4": ["0.0.0.0/0"], "ipv6": ["::/0"]}} == acl


@every
def test_no_nodebalancer_or_firewall_is_made_where_lke_s_controllers_may_not_touch_it(
    name: str,
) -> None:
    program = whole.kind(name)
    assert not program.typed(":NodeBalancer")
    assert not program.typed("firewall:Firewall")
    notes = front(program)["metadata"]["annotations"]
    assert ANNOTATION + "nodebalancer-id" not in notes
    assert ANNOTATION + "firewall-id" not in notes


@pytest.mark.fault(27)
def test_what_the_front_bills_goes_with_it_and_carries_the_cluster_s_name() -> None:
    program = whole.kind("smallest")
    assert ANNOTATION + "preserve" not in front(program)["metadata"]["annotations"]
    assert "nearfar,nearfar" == asked(program, "tags")


def test_a_source_s_address_reaches_the_ingress() -> None:
    program = whole.kind("smallest")
    assert "v2" == asked(program, "default-proxy-protocol")
    assert "Local" == front(program)["spec"]["externalTrafficPolicy"]
    trusted = values(program)["ports"]["websecure"]["proxyProtocol"]["trustedIPs"]
    assert ["192.168.255.0/24"] == trusted


def test_both_firewalls_are_looked_at_in_the_end() -> None:
    check = whole.kind("domain").typed(":FirewallsAttached")[0]
    assert ADDRESS == check.inputs["address"]
    assert "token" in check.secret
    assert "198.51.100.0/24" in check.inputs["watched"]


def test_the_nodes_firewall_is_made_by_the_controller_and_goes_before_it() -> None:
    program = whole.kind("smallest")
    rules = program.one("CloudFirewall").inputs
    assert ("primary", names.KUBE_SYSTEM) == (
        rules["metadata"]["name"],
        rules["metadata"]["namespace"],
    )
    assert rules["spec"]["defaultRules"] is True
    # The chart makes rules of its own only when it is given some.
    assert "firewall" not in program.release("cloud-firewall").inputs["values"]


def test_without_a_domain_the_nodebalancer_s_name_is_certified_over_443() -> None:
    program = whole.kind("smallest")
    acme = values(program)["certificatesResolvers"][RESOLVER]["acme"]
    assert acme["tlsChallenge"] is True
    assert "dnsChallenge" not in acme
    assert f"Host(`{HOSTNAME}`)" in routes(program)["chat"]["routes"][0]["match"]


def test_with_a_domain_the_certificate_is_proved_in_linode_s_dns() -> None:
    program = whole.kind("domain")
    acme = values(program)["certificatesResolvers"][RESOLVER]["acme"]
    assert {"provider": "linode"} == acme["dnsChallenge"]
    assert "tlsChallenge" not in acme
    [token] = values(program)["env"]
    assert {"name": "dns-01", "key": "token"} == token["valueFrom"]["secretKeyRef"]
    record = program.typed(":DomainRecord")[0].inputs
    assert ("gpu", "A", ADDRESS) == (record["name"], record["recordType"], record["target"])
    assert "Host(`gpu.example.com`)" in routes(program)["chat"]["routes"][0]["match"]


@every
def test_certificates_lie_on_a_volume_of_one_traefik(name: str) -> None:
    program = whole.kind(name)
    told = values(program)
    assert (1, "Recreate") == (told["deployment"]["replicas"], told["updateStrategy"]["type"])
    claim = program.one("PersistentVolumeClaim", told["persistence"]["existingClaim"]).inputs
    assert names.INGRESS == claim["metadata"]["namespace"]
    assert told["certificatesResolvers"][RESOLVER]["acme"]["storage"].startswith("/data/")


@pytest.mark.fault(24)
def test_a_model_server_that_starts_is_a_503_at_the_ingress() -> None:
    """The edge makes 503 with Retry-After of it; without its Service a route would be a 404."""
    found = values(whole.kind("smallest"))["providers"]["kubernetesCRD"]
    assert found["allowEmptyServices"] is True


@every
def test_every_route_is_tls_and_in_the_flow_table(name: str) -> None:
    program = whole.kind(name)
    table = {flow.name: flow for flow in flows.exposed(given.settings(**whole.KINDS[name]))}
    assert set(table) == set(routes(program))
    for called, spec in routes(program).items():
        flow = table[called]
        assert ["websecure"] == spec["entryPoints"]
        assert {"certResolver": RESOLVER} == spec["tls"]
        [only] = spec["routes"]
        assert all(f"Method(`{method}`)" in only["match"] for method in flow.methods)
        assert all(f"Path(`{path}`)" in only["match"] for path in flow.paths)
        [service] = only["services"]
        assert (flow.service, flow.port) == (service["name"], service["port"])


@every
def test_every_service_of_a_flow_is_there(name: str) -> None:
    program = whole.kind(name)
    services = {
        (one.inputs["metadata"]["namespace"], one.called): one.inputs["spec"]
        for one in program.all("Service")
    }
    for flow in flows.exposed(given.settings(**whole.KINDS[name])):
        ports = [port["port"] for port in services[flow.namespace, flow.service]["ports"]]
        assert flow.port in ports, flow.name


def test_the_redis_is_in_no_flow() -> None:
    assert not [flow for flow in flows.FLOWS if flow.namespace == names.STORE]
    assert not [flow for flow in flows.FLOWS if flow.port == flows.REDIS_PORT]


def test_an_edge_in_the_cluster_is_reached_instead_of_the_model() -> None:
    assert ["clients"] == list(routes(whole.kind("edge beside the model")))


@every
def test_nothing_on_the_way_buffers_a_stream_or_ends_it(name: str) -> None:
    program = whole.kind(name)
    kinds = {key for one in program.all("Middleware") for key in one.inputs["spec"]}
    assert kinds <= {"rateLimit", "ipAllowList"}
    for spec in routes(program).values():
        [service] = spec["routes"][0]["services"]
        assert {"flushInterval": "1ms"} == service["responseForwarding"]
    timeouts = values(program)["ports"]["websecure"]["transport"]["respondingTimeouts"]
    assert "0s" == timeouts["writeTimeout"]
    # Go's server ends an answer that outlasts the time for reading its request.
    assert 3600 <= int(timeouts["readTimeout"].removesuffix("s"))


def test_a_source_has_its_share_and_no_more() -> None:
    settings = given.settings(requestsPerMinute="90", requestsBurst="7").front
    limit = middlewares(settings)["per-source"]["rateLimit"]
    assert {"average": 90, "period": "1m", "burst": 7} == limit


@every
def test_every_route_passes_every_guard(name: str) -> None:
    program = whole.kind(name)
    guards = {one.called for one in program.all("Middleware")}
    for spec in routes(program).values():
        assert guards == {one["name"] for one in spec["routes"][0]["middlewares"]}


def test_sources_are_held_to_at_the_ingress_too() -> None:
    sources = whole.kind("domain").one("Middleware", "sources").inputs["spec"]
    assert {"ipAllowList": {"sourceRange": ["198.51.100.0/24", "2001:db8::/32"]}} == sources


def test_a_generation_replaces_every_secret() -> None:
    made = whole.whole({"keyGeneration": "2"}).typed(":RandomSecret")
    assert made
    assert {2} == {one.inputs["generation"] for one in made}


@every
def test_the_mirror_holds_every_chart_and_every_image(name: str) -> None:
    program = whole.whole(whole.KINDS[name], mirror="https://mirror.example/nearfar")
    for release in program.typed(":Release"):
        assert "https://mirror.example/nearfar/charts" == release.inputs["repositoryOpts"]["repo"]
    for made, template in whole.pods(program):
        for container in template["spec"]["containers"]:
            image = container["image"]
            ours = image.startswith("mirror.example/nearfar/")
            # The edge's own image is where the operator keeps it.
            assert ours or image.startswith("registry.example/team/"), made["metadata"]["name"]


@every
def test_no_chart_is_left_to_take_an_image_from_its_own_home(name: str) -> None:
    program = whole.whole(whole.KINDS[name], mirror="https://mirror.example/nearfar")
    for release in program.typed(":Release"):
        told = json.dumps(release.inputs["values"])
        for home in ("docker.io", "ghcr.io", "quay.io", "nvcr.io", "registry.k8s.io"):
            left = [part for part in told.split(home)[:-1] if not part.endswith("nearfar/")]
            assert not left, f"{release.name} {home}"


def test_an_image_in_the_mirror_keeps_its_whole_name_and_its_digest() -> None:
    image = given.sources("http://127.0.0.1:5000/m").image("traefik")
    wanted = f"127.0.0.1:5000/m/docker.io/library/traefik:{image.tag}@{given.DIGEST}"
    assert wanted == image.reference
