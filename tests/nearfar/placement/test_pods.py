from __future__ import annotations

import copy
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fakes import http_edge, sample
from fakes.api_server import ApiServer, serving
from nearfar.errors import BadInput, Missing, NearfarError
from nearfar.exchange import Edge
from nearfar.placement import pod_answers, pods
from nearfar.placement.kubeconfig import Cluster
from nearfar.placement.pod_story import NotStarted, start_of
from nearfar.placement.steps import Start
from nearfar.ports import free_port

CREATED = datetime(2026, 11, 30, 12, 0, 0, tzinfo=UTC)
STEPS = ("scheduled", "volumes, sandbox", "image", "container start", "ready")


def at(seconds: float) -> str:
    return (CREATED + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


def condition(kind: str, seconds: float) -> dict[str, Any]:
    return {"type": kind, "status": "True", "lastTransitionTime": at(seconds)}


def pod(uid: str = "u1", created: float = 0, **times: float) -> dict[str, Any]:
    """A pod that is ready after 100 s, as the API tells of one."""
    when = {"scheduled": 1, "started": 62, "ready": 100} | times
    return {
        "metadata": {"name": f"vllm-{uid}", "uid": uid, "creationTimestamp": at(created)},
        "status": {
            "phase": "Running",
            "conditions": [
                condition("PodScheduled", when["scheduled"]),
                condition("Ready", when["ready"]),
            ],
            "containerStatuses": [
                {"restartCount": 0, "state": {"running": {"startedAt": at(when["started"])}}}
            ],
        },
    }  # fmt: skip


def event(reason: str, seconds: float, uid: str = "u1") -> dict[str, Any]:
    return {
        "metadata": {"name": f"{uid}.{reason}"},
        "reason": reason,
        "firstTimestamp": at(seconds),
        "involvedObject": {"uid": uid},
    }


EVENTS = [event("Scheduled", 1), event("Pulling", 3), event("Pulled", 60), event("Started", 62)]


def seconds(start: Start) -> dict[str, float | None]:
    *steps, last = start.steps
    assert ("first token", None) == (last.name, last.ms)
    return {step.name: None if step.ms is None else step.ms / 1000 for step in steps}


def test_a_pods_start_is_taken_apart() -> None:
    start = start_of(pod(), EVENTS, 3)
    assert dict(zip(STEPS, (1, 2, 57, 2, 38), strict=True)) == seconds(start)
    assert ("pod", "cold", 3, 100_000) == (
        start.subject, start.condition, start.number, start.total_ms,
    )  # fmt: skip
    assert "whole seconds" in start.note


def test_an_image_that_was_there_is_no_step_of_nothing() -> None:
    start = start_of(pod(), [event("Pulled", 2)], 0)
    assert {"scheduled": 1, "volumes, sandbox": None, "image": 1, "container start": 60,
            "ready": 38} == seconds(start)  # fmt: skip
    assert "the image was on the node" in start.steps[1].why_not


def test_without_events_their_time_lies_within_the_containers_start() -> None:
    start = start_of(pod(), [], 0)
    assert {"scheduled": 1, "volumes, sandbox": None, "image": None, "container start": 61,
            "ready": 38} == seconds(start)  # fmt: skip
    assert "container start" == start.steps[2].within
    assert "for an hour" in start.steps[2].why_not


def test_clocks_that_disagree_leave_a_step_unseen_and_never_below_nothing() -> None:
    start = start_of(pod(), [event("Pulling", 3), event("Pulled", 63)], 0)
    found = seconds(start)
    assert (60, None, 37) == (found["image"], found["container start"], found["ready"])
    assert "clocks disagree" in start.steps[3].why_not


@pytest.mark.parametrize("times", [{"ready": -2}, {"created": 101}])
def test_a_start_that_ends_before_it_begins_is_none(times: dict[str, float]) -> None:
    with pytest.raises(NotStarted, match="disagree"):
        start_of(pod(**times), EVENTS, 0)  # type: ignore[arg-type]


def not_ready(reason: str) -> dict[str, Any]:
    found = pod()
    found["status"]["conditions"][1]["status"] = "False"
    found["status"]["containerStatuses"][0]["state"] = {"waiting": {"reason": reason}}
    return found


def restarted() -> dict[str, Any]:
    found = pod()
    found["status"]["containerStatuses"][0]["restartCount"] = 2
    return found


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (not_ready("ImagePullBackOff"), r"is not ready \(ImagePullBackOff\)"),
        (restarted(), "restarted 2 times"),
        ({"metadata": {"name": "x"}}, "no creation time"),
        ({"metadata": {"name": "x", "creationTimestamp": at(0)}}, r"not ready \(unknown\)"),
        ({"metadata": {"name": "x", "creationTimestamp": "yesterday"}}, "no creation time"),
    ],
)
def test_a_pod_whose_start_has_no_end_says_what_it_waits_for(told: Any, said: str) -> None:
    with pytest.raises(NotStarted, match=said):
        start_of(told, [], 0)


@pytest.mark.parametrize("path", ["status", "status.conditions", "status.containerStatuses"])
def test_what_the_api_leaves_out_is_no_fault(path: str) -> None:
    told = copy.deepcopy(pod())
    *outer, last = path.split(".")
    inner = told
    for name in outer:
        inner = inner[name]
    del inner[last]
    try:
        start = start_of(told, EVENTS, 0)
    except NotStarted:
        assert path != "status.containerStatuses"
    else:
        assert seconds(start)["container start"] is None


def ask(server: ApiServer) -> Any:
    return pods.asked(Cluster(server.url, "gpu", "token-1"), "app=vllm", None)


def test_pods_and_their_events_come_from_the_api() -> None:
    other = [event("Pulling", 4, "u2"), event("Pulled", 5, "u2")]
    server = ApiServer(pods=[pod(), pod("u2", created=0.0)], events=[*EVENTS, *other])
    with serving(server), ask(server) as asked:
        starts = [asked.start(each, n) for n, each in enumerate(asked.some())]
    assert [57, 1] == [seconds(start)["image"] for start in starts]
    assert "GET /api/v1/namespaces/gpu/pods?labelSelector=app%3Dvllm" == server.asked[0]
    assert not [line for line in server.asked if line.startswith("DELETE")]


def test_a_pod_is_deleted_only_when_its_successor_is_wanted_and_that_is_followed() -> None:
    server = ApiServer(pods=[pod()], events=[event("Pulling", 7, "u2")], renewed=[pod("u2", 5.0)])
    with serving(server), ask(server) as asked:
        start = asked.renewed(0, timeout_s=10)
    assert 95 == start.total_ms / 1000
    assert "DELETE /api/v1/namespaces/gpu/pods/vllm-u1" in server.asked


def test_a_successor_that_does_not_come_is_told() -> None:
    server = ApiServer(pods=[pod()])
    with (
        serving(server),
        ask(server) as asked,
        pytest.raises(Missing, match="No new pod of 'app=vllm' was ready within 1 s"),
    ):
        asked.renewed(0, timeout_s=1)


@pytest.mark.parametrize(
    ("server", "kind", "said"),
    [
        (ApiServer(token="other"), BadInput, r"refuses this kubeconfig \(401\)"),
        (ApiServer(status=403), BadInput, r"refuses this kubeconfig \(403\)"),
        (ApiServer(status=500), NearfarError, "it answered 500"),
        (ApiServer(text="<html>"), NearfarError, "and no JSON"),
        (ApiServer(text="[]"), NearfarError, "it answered 200"),
        (ApiServer(text='{"items": [1]}'), NearfarError, "it sent no list of pods"),
        (ApiServer(), Missing, "There is no pod of 'app=vllm' in the namespace 'gpu'"),
    ],
)
def test_a_server_that_is_none_or_refuses_is_told(
    server: ApiServer, kind: type[NearfarError], said: str
) -> None:
    with serving(server), ask(server) as asked, pytest.raises(kind, match=said):
        asked.some()


def test_a_server_that_is_away_is_told() -> None:
    away = ApiServer(url=f"http://127.0.0.1:{free_port()}")
    with ask(away) as asked, pytest.raises(Missing, match="does not answer"):
        asked.all()


@pytest.fixture
def edge() -> Iterator[http_edge.HttpEdge]:
    with http_edge.serving(http_edge.HttpEdge(stream=sample.stream())) as found:
        yield found


def test_the_absence_of_a_model_is_timed_up_to_an_answer_through_the_edge(
    edge: http_edge.HttpEdge,
) -> None:
    server = ApiServer(pods=[pod()], renewed=[pod("u2", 5.0)])
    at_edge = Edge(edge.endpoint, edge.key("chat"))
    with serving(server), ask(server) as asked:
        start, absence = pod_answers.renewed(asked, at_edge, "mock", 3)
    assert ("pod", 95.0) == (start.subject, start.total_ms / 1000)
    assert ("pod-answer", "cold", 3) == (absence.subject, absence.condition, absence.number)
    assert ["until its successor is ready", "first token through the edge"] == [
        step.name for step in absence.steps
    ]
    assert all(step.ms is not None and step.ms > 0 for step in absence.steps)
    assert 1 == edge.asked[0][1]["max_tokens"]


def test_an_edge_that_does_not_answer_after_all_is_told(edge: http_edge.HttpEdge) -> None:
    server = ApiServer(pods=[pod()], renewed=[pod("u2", 5.0)])
    at_edge = Edge(edge.endpoint, "nf_wrong")
    with (
        serving(server),
        ask(server) as asked,
        pytest.raises(Missing, match=r"No answer came through .* within 1 s"),
    ):
        pod_answers.renewed(asked, at_edge, "mock", 0, timeout_s=1)
