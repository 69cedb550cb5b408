"""The users of the gates' Redis, in a real Redis 8: each may do its work and nothing else."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import redis

from fakes.engine import SECRET, grant, serve, until
from gpu_backend.gate import usage
from gpu_backend.gate.settings import Settings
from gpu_backend.gate.usage import month_of
from nearfar import gate as operator_side
from nearfar import program
from nearfar.ports import free_port
from nearfar_infra.manifests import redis as manifest

PASSWORDS = {"gate": "g" * 43, "operator": "o" * 43, "metrics": "m" * 43}


@dataclass(frozen=True, slots=True)
class Guarded:
    """A server with the deployment's configuration and users, in a folder of its own."""

    port: int
    folder: Path

    def url(self, user: str) -> str:
        return f"redis://{user}:{PASSWORDS[user]}@127.0.0.1:{self.port}/0"

    def client(self, user: str) -> redis.Redis:
        return redis.Redis.from_url(self.url(user), decode_responses=True)


def start(folder: Path, port: int) -> subprocess.Popen[bytes]:
    """The configuration as it is deployed, but for paths and port."""
    users = folder / "users.acl"
    users.write_text(manifest.acl(PASSWORDS["gate"], PASSWORDS["operator"], PASSWORDS["metrics"]))
    text = manifest.CONFIG.replace("/etc/redis/users.acl", str(users))
    text = text.replace("dir /data", f"dir {folder}").replace("port 6379", f"port {port}")
    (folder / "redis.conf").write_text(text + "bind 127.0.0.1\n")
    argv = [str(program.find("redis-server")), str(folder / "redis.conf")]
    process = subprocess.Popen(argv, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port, username="metrics", password=PASSWORDS["metrics"])
    deadline = time.monotonic() + 10
    while True:
        try:
            assert client.ping()
            client.close()
            return process
        except redis.ConnectionError:
            assert time.monotonic() < deadline
            time.sleep(0.02)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder, port = tmp_path_factory.mktemp("redis"), free_port()
    process = start(folder, port)
    yield Guarded(port, folder)
    process.kill()
    process.wait()


async def test_a_gate_does_all_its_work_as_its_own_user(guarded: Guarded) -> None:
    """Reserve, renew, settle, read revocations: with limits, so that every branch of them runs."""
    chosen = Settings(secrets=(SECRET,), redis=guarded.url("gate"), lease_s=3)
    name = "acl-gate"
    async with serve(chosen) as served:
        limits = {"rpm": 3, "tpm": 1000, "par": 2, "month": 10_000}
        replies = [await served.ask(grant(name, **limits), tokens=4) for _ in range(4)]
        assert [200, 200, 200, 429] == [reply.status_code for reply in replies]
        # Longer than a third of a lease, so that it is renewed.
        long = await served.ask(grant("acl-long", par=1), tokens=8, gap_ms=400)
        assert 200 == long.status_code
        assert served.gate.limiter.redis_up is True
        with guarded.client("operator") as reader:
            month = month_of(time.time())

            def settled() -> bool:
                return any(
                    row.key == name and row.requests == 3 for row in usage.read(reader, month)
                )

            await until(settled)


def test_the_operator_reads_usage_and_writes_revocations(guarded: Guarded) -> None:
    operator_side.tell_revoked(guarded.url("operator"), {"k1": 17.0})
    with guarded.client("gate") as client:
        assert "k1" in str(client.get("nf:1:revoked"))
    assert isinstance(operator_side.used(guarded.url("operator"), "2026-11"), tuple)


@pytest.mark.parametrize(
    ("user", "command"),
    [
        ("gate", ("GET", "nf:1:answer:abc")),
        ("gate", ("SET", "nf:1:revoked", "{}")),
        ("gate", ("KEYS", "*")),
        ("gate", ("FLUSHALL",)),
        ("gate", ("CONFIG", "GET", "*")),
        ("gate", ("ACL", "LIST")),
        ("operator", ("SET", "nf:gate:1:usage:2026-11", "x")),
        ("operator", ("GET", "nf:gate:1:once:r")),
        ("operator", ("FLUSHALL",)),
        ("metrics", ("GET", "nf:1:revoked")),
        ("metrics", ("KEYS", "*")),
    ],
)
def test_nobody_reaches_beyond_its_own_keys_and_commands(
    guarded: Guarded, user: str, command: tuple[str, ...]
) -> None:
    with guarded.client(user) as client, pytest.raises(redis.exceptions.NoPermissionError):
        client.execute_command(*command)


def test_nobody_comes_in_without_a_name(guarded: Guarded) -> None:
    with redis.Redis(port=guarded.port) as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_what_was_counted_is_there_after_a_crash(tmp_path: Path) -> None:
    port = free_port()
    process = start(tmp_path, port)
    guarded = Guarded(port, tmp_path)
    with guarded.client("gate") as client:
        client.set("nf:gate:1:once:r", "x")
    time.sleep(1.2)  # appendfsync everysec
    process.kill()
    process.wait()
    process = start(tmp_path, port)
    try:
        with guarded.client("gate") as client:
            assert "x" == client.get("nf:gate:1:once:r")
    finally:
        process.kill()
        process.wait()


def test_no_password_stands_in_the_file_of_users() -> None:
    text = manifest.acl(*PASSWORDS.values())
    assert not [word for word in PASSWORDS.values() if word in text]
    assert text.startswith("user default off")


def test_nothing_is_evicted_and_everything_is_written_down() -> None:
    """docs/gate.md asks for both: evicted state would raise limits, a restart forget usage."""
    lines = manifest.CONFIG.splitlines()
    assert {"maxmemory-policy noeviction", "appendonly yes"} <= set(lines)
