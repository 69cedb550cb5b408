"""The Redis of the local stack, a real one."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

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
        assert "" == client.config_get("save")["save"]


def test_its_password_is_readable_by_its_owner_alone(started: Store, tmp_path: Path) -> None:
    assert 0o600 == (tmp_path / "store.conf").stat().st_mode & 0o777
    command = Path(f"/proc/{started.child.pid}/cmdline").read_bytes().decode()
    password = started.url.split("@")[0].removeprefix("redis://:")
    assert password not in command


def test_the_stack_can_do_without_it(started: Store) -> None:
    assert not started.child.needed


def test_nothing_answers_where_nothing_listens() -> None:
    assert not store.answers("redis://127.0.0.1:1/0")
    assert not os.path.lexists("dump.rdb")
