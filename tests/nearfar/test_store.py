"""The Redis of the local stack, a real one."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import redis

from edge_frontend import admin, flight, revocations
from nearfar import store
from nearfar.guard import Guard
from nearfar.store import Store


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Store]:
    guard = Guard()
    made = store.start(tmp_path, guard)
    yield made
    made.child.stop()
    guard.close()


def test_it_answers_and_asks_for_its_password(started: Store) -> None:
    assert store.answers(started.url)
    password = started.url.split("@")[0].removeprefix("redis://:")
    assert not store.answers(started.url.replace(password, "another"))


def test_it_forgets_old_values_when_its_memory_is_full(started: Store) -> None:
    with redis.Redis.from_url(started.url) as client:
        assert "volatile-ttl" == client.config_get("maxmemory-policy")["maxmemory-policy"]
        assert str(256 << 20) == client.config_get("maxmemory")["maxmemory"]
        assert "yes" == client.config_get("appendonly")["appendonly"]
        assert "" == client.config_get("save")["save"]


@contextmanager
def running(folder: Path, *, killed: bool = False) -> Iterator[redis.Redis]:
    """A store of this run folder, ended with the block."""
    guard = Guard()
    made = store.start(folder, guard)
    try:
        with redis.Redis.from_url(made.url) as client:
            yield client
        if killed:
            made.child.popen.kill()
    finally:
        made.child.stop()
        guard.close()


def test_keys_and_revocations_outlive_a_restart_and_answers_do_not(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        for kept in (admin.KEYS, revocations.KEY, "nf:1:usage:any"):
            client.set(kept, "kept", ex=60)
        for name in ("a", "b"):
            client.set(flight.answer_key(name), "gone", ex=60)
            client.set(flight.lease_key(name), "gone", ex=60)
            client.set(flight.waiting_key(name), "gone", ex=60)
            client.set(flight.live_key(name.encode(), 0), "gone", ex=60)
    with running(tmp_path) as client:
        assert {admin.KEYS, revocations.KEY, "nf:1:usage:any"} == names(client)


def names(client: redis.Redis) -> set[str]:
    return {name.decode() for name in client.scan_iter()}


def test_a_revocation_of_a_second_ago_outlives_kill_9(tmp_path: Path) -> None:
    with running(tmp_path, killed=True) as client:
        client.set(revocations.KEY, "{}", ex=60)
        time.sleep(1.5)
    with running(tmp_path) as client:
        assert {revocations.KEY} == names(client)


def test_answers_of_the_last_run_leave_the_disk_too(tmp_path: Path) -> None:
    with running(tmp_path) as client:
        client.set(flight.answer_key("a"), "an answer to be forgotten", ex=60)
    assert "to be forgotten" in on_disk(tmp_path)
    with running(tmp_path) as client:
        deadline = time.monotonic() + 20
        while client.info("persistence")["aof_rewrite_in_progress"] or (
            "to be forgotten" in on_disk(tmp_path)
        ):
            assert time.monotonic() < deadline
            time.sleep(0.05)
    assert "nf:1:answer" not in on_disk(tmp_path)


def on_disk(folder: Path) -> str:
    files = (folder / store.FOLDER).rglob("*")
    return "".join(path.read_text("latin-1") for path in files if path.is_file())


def test_what_it_keeps_is_for_its_owner_alone(started: Store, tmp_path: Path) -> None:
    assert started.child.pid
    assert 0o700 == (tmp_path / store.FOLDER).stat().st_mode & 0o777


def test_its_password_is_readable_by_its_owner_alone(started: Store, tmp_path: Path) -> None:
    assert 0o600 == (tmp_path / "store.conf").stat().st_mode & 0o777
    command = Path(f"/proc/{started.child.pid}/cmdline").read_bytes().decode()
    password = started.url.split("@")[0].removeprefix("redis://:")
    assert password not in command


def test_the_stack_can_do_without_it(started: Store) -> None:
    assert not started.child.needed


def test_nothing_answers_where_nothing_listens() -> None:
    assert not store.answers("redis://127.0.0.1:1/0")
    assert not store.answers("redis://127.0.0.1:port/0")
    assert not os.path.lexists("dump.rdb")
