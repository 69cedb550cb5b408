"""Redis 8 inside the cluster, for the gates; nothing outside ever reaches it."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from urllib.parse import quote

import pulumi
from pulumi import ResourceOptions

from nearfar_infra import names
from nearfar_infra.manifests import redis
from nearfar_infra.objects import declare
from nearfar_infra.sources import Sources


@dataclass(frozen=True, slots=True)
class RedisArgs:
    namespace: pulumi.Input[str]
    sources: Sources
    storage_class: str
    gate_password: pulumi.Input[str]
    metrics_password: pulumi.Input[str]
    operator_password: pulumi.Input[str]


class Redis(pulumi.ComponentResource):
    """`url` is what a gate is given: its own user, limited to its own keys (secret)."""

    url: pulumi.Output[str]

    def __init__(self, name: str, args: RedisArgs, opts: ResourceOptions | None = None) -> None:
        super().__init__("nearfar:components:Redis", name, {}, opts)
        own = ResourceOptions(parent=self)
        given = pulumi.Output.all(args.gate_password, args.operator_password, args.metrics_password)
        users: pulumi.Output[str] = pulumi.Output.secret(given.apply(_users))
        needed = [
            declare(
                f"{name}-users",
                redis.secret(args.namespace, users, args.metrics_password, args.operator_password),
                own,
            ),
            declare(f"{name}-config", redis.config_map(args.namespace), own),
        ]
        declare(name, redis.service(args.namespace), own)
        manifest = redis.stateful_set(
            args.namespace,
            args.sources.image("redis").reference,
            args.storage_class,
            _version(users),
        )
        self.server = declare(name, manifest, ResourceOptions(parent=self, depends_on=needed))
        self.url = self._url("gate", args.gate_password)
        self.register_outputs({"url": self.url})

    def _url(self, user: str, password: pulumi.Input[str]) -> pulumi.Output[str]:
        """An address that is known once the server is."""
        host = f"{redis.NAME}.{names.STORE}.svc"
        there = pulumi.Output.all(pulumi.Output.from_input(password), self.server.id)
        return pulumi.Output.secret(
            there.apply(
                lambda known: f"redis://{user}:{quote(known[0], safe='')}@{host}:{redis.PORT}/0"
            )
        )


def _users(passwords: list[str]) -> str:
    gate, operator, metrics = passwords
    return redis.acl(gate, operator, metrics)


def _version(users: pulumi.Output[str]) -> pulumi.Output[str]:
    hashed = users.apply(
        lambda text: hashlib.sha256((redis.CONFIG + text).encode()).hexdigest()[:16]
    )
    return pulumi.Output.unsecret(hashed)
