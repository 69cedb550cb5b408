"""Limits against a model in made-up time: never more than the limit, and never less."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given
from hypothesis import settings as examples
from hypothesis import strategies as st

from fakes.engine import grant
from gpu_backend.gate.decision import Decision, Verdict
from gpu_backend.gate.local_limits import LocalLimits
from gpu_backend.gate.outcome import UNDONE, Outcome
from gpu_backend.gate.redis_limits import Holder, decided
from gpu_backend.gate.scripts import ALL, Keys
from gpu_backend.grant import Grant, Limits

US = 1_000_000
WINDOW_US = 60 * US
LEASE_US = 15 * US
MONTH = "2026-11"
START_US = 1_796_000_000 * US

_names = itertools.count()


@dataclass
class Held:
    """One request that the model let in."""

    at_us: int
    tokens: int
    lease_us: int
    settled: bool = False
    undone: bool = False


@dataclass
class Model:
    """The limits written down as plainly as can be: every question looks at every request."""

    limits: Limits
    held: dict[str, Held] = field(default_factory=dict)
    used: int = 0

    def verdicts(self, now_us: int, tokens: int) -> set[Verdict]:
        """Every limit that is reached; none lets the request in."""
        limits, found = self.limits, set()
        window = self._window(now_us)
        live = [h for h in self.held.values() if not h.settled and h.lease_us > now_us]
        budget = self.used + sum(h.tokens for h in live) + tokens
        if limits.rpm is not None and len(window) >= limits.rpm:
            found.add(Verdict.REQUESTS)
        if limits.tpm is not None and sum(h.tokens for h in window) + tokens > limits.tpm:
            found.add(Verdict.TOKENS)
        if limits.par is not None and len(live) >= limits.par:
            found.add(Verdict.PARALLEL)
        if limits.month is not None and budget > limits.month:
            found.add(Verdict.MONTH)
        return found

    def left(self, now_us: int) -> tuple[int | None, int | None]:
        """Requests and tokens that are left, None without such a limit."""
        window, limits = self._window(now_us), self.limits
        tokens = sum(h.tokens for h in window)
        return (
            None if limits.rpm is None else max(0, limits.rpm - len(window)),
            None if limits.tpm is None else max(0, limits.tpm - tokens),
        )

    def _window(self, now_us: int) -> list[Held]:
        return [h for h in self.held.values() if h.at_us > now_us - WINDOW_US and not h.undone]


@dataclass
class Models:
    """One tenant and its keys: a request needs room at its key and at the tenant."""

    keys: dict[str, Model]
    tenant: Model

    def of(self, key: str) -> tuple[Model, Model]:
        return self.keys[key], self.tenant

    def verdicts(self, key: str, now_us: int, tokens: int) -> set[Verdict]:
        """Every verdict that may be given: OK alone, or one of the limits that are reached."""
        found = set[Verdict]().union(*(m.verdicts(now_us, tokens) for m in self.of(key)))
        return found or {Verdict.OK}


class RedisSubject:
    """The scripts in a real Redis, with made-up time."""

    def __init__(self, store: redis.Redis) -> None:
        self.store = store
        for script in ALL:
            store.script_load(script.text)
        self.holders: dict[str, Holder] = {}

    def reserve(self, asked: Grant, now_us: int) -> Decision:
        keys = Keys.of(asked.tenant, asked.key)
        holder = Holder(asked, f"token-{asked.request_id}", MONTH, keys, LEASE_US / US)
        self.holders[asked.request_id] = holder
        return decided(self.run(holder.reserve(now_us)), asked)

    def settle(self, request_id: str, generated: int | None) -> None:
        outcome = UNDONE if generated is None else Outcome(generated)
        for _ in range(2):  # the second one does nothing
            self.run(self.holders[request_id].settle(outcome))

    def renew(self, request_id: str, now_us: int) -> None:
        self.run(self.holders[request_id].renew(now_us))

    def run(self, command: tuple[str | int, ...]) -> Any:
        run: Callable[..., Any] = self.store.execute_command
        return run(*command)


class LocalSubject:
    """The limits of one process, with made-up time; it has no leases and no budget."""

    def __init__(self) -> None:
        self.now_us = START_US
        self.limits = LocalLimits(lambda: self.now_us / US)
        self.grants: dict[str, Grant] = {}

    def reserve(self, asked: Grant, now_us: int) -> Decision:
        self.now_us = now_us
        self.grants[asked.request_id] = asked
        return self.limits.reserve(asked)

    def settle(self, request_id: str, generated: int | None) -> None:
        for _ in range(2):
            self.limits.settle(self.grants[request_id], generated)

    def renew(self, request_id: str, now_us: int) -> None:
        """Nothing: a process that is there needs no lease."""


Subject = RedisSubject | LocalSubject

limit = st.none() | st.integers(0, 6)
limits_ = st.builds(
    Limits,
    rpm=limit,
    tpm=st.none() | st.sampled_from([0, 10, 25, 40, 60]),
    par=limit,
    month=st.none() | st.integers(0, 150),
)
KEYS = ("one", "two")
# Few amounts, so that sums meet the limits exactly.
amount = st.sampled_from([0, 5, 10, 20])
# Quarters of a second are exact in floats; whole windows and leases are where mistakes live.
step = st.one_of(
    st.tuples(st.just("wait"), st.integers(0, 80) | st.sampled_from([60, 239, 240, 241])),
    st.tuples(st.sampled_from(KEYS), amount),
    st.tuples(st.sampled_from(KEYS), amount),
    st.tuples(st.just("settle"), amount),
    st.tuples(st.just("undo"), st.integers(0, 3)),
    st.tuples(st.just("renew"), st.just(0)),
)
steps_ = st.lists(step, min_size=5, max_size=40)
# Most often a tenant has no limits: then its keys must not be counted together.
owners_ = st.fixed_dictionaries(dict.fromkeys((*KEYS, "tenant"), limits_)) | (
    st.fixed_dictionaries(dict.fromkeys(KEYS, limits_))
)
Owners = dict[str, Limits]


class Play:
    """Does the same to the limits and to the model, and compares every decision."""

    def __init__(self, subject: Subject, owners: Owners, tenant: str) -> None:
        self.subject, self.tenant = subject, tenant
        keys = {name: Model(owners[name]) for name in KEYS}
        self.models = Models(keys, Model(owners.get("tenant", Limits())))
        self.running: dict[str, tuple[str, Held]] = {}
        self.now_us = START_US

    def do(self, kind: str, amount: int) -> None:
        if kind == "wait":
            self.now_us += amount * US // 4
        elif kind in KEYS:
            self._reserve(kind, amount)
        elif kind == "renew":
            self._renew()
        elif self.running:
            self._settle(amount, undo=kind == "undo")

    def _reserve(self, kind: str, amount: int) -> None:
        key, shared = self.models.of(kind)
        plain = grant(kind, input_tokens=amount, output_tokens=0, tenant=self.tenant)
        asked = replace(plain, limits=key.limits, tenant_limits=shared.limits)
        allowed = self.models.verdicts(kind, self.now_us, amount)
        decision = self.subject.reserve(asked, self.now_us)
        assert decision.verdict in allowed
        if decision.verdict is Verdict.OK:
            leases = isinstance(self.subject, RedisSubject)
            held = Held(self.now_us, amount, self.now_us + LEASE_US if leases else 1 << 62)
            key.held[asked.request_id] = shared.held[asked.request_id] = held
            self.running[asked.request_id] = (kind, held)
        else:
            _check_whose(self.models, kind, decision, self.now_us, amount)
        if decision.verdict in (Verdict.REQUESTS, Verdict.TOKENS):
            _check_wait(self.models, kind, decision, self.now_us, amount)
        _check_left(self.models, kind, decision, self.now_us)

    def _renew(self) -> None:
        for name, (_, held) in self.running.items():
            self.subject.renew(name, self.now_us)
            held.lease_us = max(held.lease_us, self.now_us + LEASE_US)

    def _settle(self, amount: int, *, undo: bool) -> None:
        name = list(self.running)[amount % len(self.running)]
        whose, held = self.running.pop(name)
        held.settled, held.undone, held.tokens = True, undo, 0 if undo else amount
        for model in self.models.of(whose):
            model.used += held.tokens
        self.subject.settle(name, None if undo else amount)


def play(subject: Subject, owners: Owners, steps: list[tuple[str, int]], tenant: str) -> None:
    """Do all steps, one after the other."""
    game = Play(subject, owners, tenant)
    for kind, amount in steps:
        game.do(kind, amount)


def _check_whose(models: Models, key: str, decision: Decision, now_us: int, tokens: int) -> None:
    """The owner that is named is one whose limit is reached, and it is named with its limits."""
    model = dict(zip(("key", "tenant"), models.of(key), strict=True))[decision.whose]
    assert decision.verdict in model.verdicts(now_us, tokens)
    assert model.limits == decision.limits


def _check_wait(models: Models, key: str, decision: Decision, now_us: int, tokens: int) -> None:
    """The wait is right to the microsecond, unless the request never fits."""
    for limits in (model.limits for model in models.of(key)):
        if limits.rpm == 0 or (limits.tpm is not None and tokens > limits.tpm):
            return
    timed = {Verdict.REQUESTS, Verdict.TOKENS}
    then_us = now_us + round(decision.wait_s * US)
    assert not timed & models.verdicts(key, then_us, tokens)
    assert timed & models.verdicts(key, then_us - 1, tokens)


def _check_left(models: Models, key: str, decision: Decision, now_us: int) -> None:
    """Of two limits the one with less left is told."""
    left = [model.left(now_us) for model in models.of(key)]
    windows = (decision.standing.requests, decision.standing.tokens)
    for window, counts in zip(windows, zip(*left, strict=True), strict=True):
        known = [count for count in counts if count is not None]
        assert min(known, default=None) == (None if window is None else window.remaining)


@given(owners=owners_, steps=steps_)
@examples(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_redis_decides_as_the_model_does(
    store: redis.Redis, owners: Owners, steps: list[tuple[str, int]]
) -> None:
    play(RedisSubject(store), owners, steps, f"tenant-{next(_names)}")


@given(owners=owners_, steps=steps_)
@examples(max_examples=300, deadline=None)
def test_a_process_without_redis_decides_as_the_model_does(
    owners: Owners, steps: list[tuple[str, int]]
) -> None:
    without_budget = {name: replace(limits, month=None) for name, limits in owners.items()}
    play(LocalSubject(), without_budget, steps, "tenant")


@pytest.mark.fault(7)
@given(gaps_us=st.lists(st.integers(0, 12 * US), min_size=30, max_size=60))
@examples(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
def test_no_sixty_seconds_admit_more_than_the_limit_and_none_admit_less(
    store: redis.Redis, gaps_us: list[int]
) -> None:
    """Whatever refusal there was: in the 60 s before it, exactly the limit was let in."""
    key, subject = f"key-{next(_names)}", RedisSubject(store)
    admitted: list[int] = []
    for at_us in itertools.accumulate(gaps_us, initial=START_US):
        decision = subject.reserve(grant(key, rpm=4), at_us)
        before = [at for at in admitted if at > at_us - WINDOW_US]
        assert (decision.verdict is Verdict.OK) == (len(before) < 4)
        if decision.verdict is Verdict.OK:
            admitted.append(at_us)
    for at_us in admitted:
        assert sum(at_us <= other < at_us + WINDOW_US for other in admitted) <= 4


@pytest.mark.fault(7)
@pytest.mark.parametrize("edge_us", [-1, 0, 1])
def test_a_burst_across_a_windows_edge_stays_within_the_limit(
    store: redis.Redis, name: str, edge_us: int
) -> None:
    """A fixed window would let twenty in within two seconds."""
    subject = RedisSubject(store)

    def burst(at_us: int, size: int) -> int:
        decisions = [subject.reserve(grant(name, rpm=10), at_us) for _ in range(size)]
        return sum(decision.verdict is Verdict.OK for decision in decisions)

    minute_us = START_US - START_US % WINDOW_US
    assert 10 == burst(minute_us + WINDOW_US - US, 60)
    assert 0 == burst(minute_us + WINDOW_US + US, 60)
    again_us = minute_us + 2 * WINDOW_US - US + edge_us
    assert (0 if edge_us < 0 else 10) == burst(again_us, 60)


@pytest.mark.parametrize(("tokens", "wait_s"), [(10, 40), (11, 50), (20, 50)])
def test_tokens_wait_for_as_many_of_the_oldest_as_they_need(
    store: redis.Redis, name: str, tokens: int, wait_s: int
) -> None:
    """Ten were used 20 s ago, ten 10 s ago, and twenty are the limit."""
    for subject in (RedisSubject(store), LocalSubject()):

        def asked_at(seconds: int, tokens: int, subject: Subject = subject) -> Decision:
            wanted = grant(name, tpm=20, input_tokens=tokens, output_tokens=0)
            return subject.reserve(wanted, START_US + seconds * US)

        for seconds in (0, 10):
            assert Verdict.OK is asked_at(seconds, 10).verdict
        refused = asked_at(20, tokens)
        assert (Verdict.TOKENS, wait_s) == (refused.verdict, refused.wait_s)


def test_what_a_killed_gate_held_is_free_when_its_lease_ends(store: redis.Redis, name: str) -> None:
    subject = RedisSubject(store)

    def verdict_at(at_us: int) -> Verdict:
        return subject.reserve(grant(name, par=1), at_us).verdict

    assert Verdict.OK is verdict_at(START_US)
    assert Verdict.PARALLEL is verdict_at(START_US + LEASE_US - 1)
    assert Verdict.OK is verdict_at(START_US + LEASE_US)


def test_a_request_that_outlived_its_lease_is_counted_again_once_it_is_renewed(
    store: redis.Redis, name: str
) -> None:
    """Its gate could not reach Redis for a while, but the engine went on with it."""
    subject, asked = RedisSubject(store), grant(name, month=40)
    subject.reserve(asked, START_US)
    later_us = START_US + 2 * LEASE_US
    other = grant(name, month=25)
    assert Verdict.OK is subject.reserve(other, later_us).verdict
    subject.settle(other.request_id, 0)
    subject.renew(asked.request_id, later_us)
    assert Verdict.MONTH is subject.reserve(grant(name, month=49), later_us).verdict
    assert Verdict.PARALLEL is subject.reserve(grant(name, par=1), later_us).verdict


def test_a_tenants_slot_is_renewed_with_its_keys(store: redis.Redis, name: str) -> None:
    subject = RedisSubject(store)

    def asked(key: str) -> Grant:
        return replace(grant(key, tenant=name), tenant_limits=Limits(par=1))

    long = asked("one")
    assert Verdict.OK is subject.reserve(long, START_US).verdict
    subject.renew(long.request_id, START_US + LEASE_US - 1)
    later_us = START_US + LEASE_US + US
    assert Verdict.PARALLEL is subject.reserve(asked("two"), later_us).verdict
    subject.settle(long.request_id, 1)
    assert Verdict.OK is subject.reserve(asked("two"), later_us).verdict


def test_everything_but_usage_expires_by_itself(store: redis.Redis, name: str) -> None:
    subject = RedisSubject(store)
    asked = replace(grant(name), tenant_limits=Limits(par=5))
    subject.reserve(asked, START_US)
    subject.renew(asked.request_id, START_US)
    for key in store.keys("*"):
        assert 0 < store.pttl(key) <= 75_000, key
    subject.settle(asked.request_id, 3)
    left = {str(key, "utf-8"): store.ttl(key) for key in store.scan_iter()}
    for kept in ("usage", "spent"):
        assert 400 * 86_400 - 5 < left.pop(f"nf:gate:1:{kept}:{MONTH}") <= 400 * 86_400
    assert all(0 < ttl <= 900 for ttl in left.values())


def test_another_gates_settlement_of_the_same_request_id_changes_nothing(
    store: redis.Redis, name: str
) -> None:
    """A second use of a grant was refused: what its gate sends must not free the first one's."""
    subject, asked = RedisSubject(store), grant(name, par=1)
    subject.reserve(asked, START_US)
    other = Holder(asked, "another token", MONTH, Keys.of("acme", name), 15)
    assert 0 == subject.run(other.settle(Outcome(9)))
    assert Verdict.PARALLEL is subject.reserve(grant(name, par=1), START_US).verdict


def test_keys_and_tenants_are_apart_whatever_their_names_hold() -> None:
    names = [("a/b", "c"), ("a", "b/c"), ("a:b", "c"), ("a", "b:c"), ("ä", "c"), ("a%2Fb", "c")]
    assert len(names) == len({Keys.of(*each).key for each in names})
    owners = {Keys.of(*each).tenant for each in names} | {Keys.of(*each).key for each in names}
    assert 5 + len(names) == len(owners), "five tenants, and no key is one"


def test_a_tenants_budget_is_spent_by_all_its_keys_and_kept_for_a_limit_that_comes_later(
    store: redis.Redis, name: str
) -> None:
    """Tokens of a tenant are counted also while it has no limit."""
    subject = RedisSubject(store)
    for key in ("one", "two"):
        free = grant(key, tenant=name)
        subject.reserve(free, START_US)
        subject.settle(free.request_id, 30)
    late = grant("three", tenant=name, output_tokens=0, input_tokens=1)
    for budget, verdict in ((60, Verdict.MONTH), (61, Verdict.OK)):
        asked = replace(late, request_id=f"{name}-{budget}", tenant_limits=Limits(month=budget))
        decided_ = subject.reserve(asked, START_US)
        assert verdict is decided_.verdict


def test_what_one_tenant_uses_is_not_anothers(store: redis.Redis, name: str) -> None:
    """The same key id in two tenants, each with one request at once."""
    subject, one_each = RedisSubject(store), Limits(par=1, rpm=1)
    for tenant, verdict in (("a", Verdict.OK), ("b", Verdict.OK), ("a", Verdict.PARALLEL)):
        asked = replace(grant(name, tenant=tenant + name), tenant_limits=one_each)
        assert verdict is subject.reserve(asked, START_US).verdict
