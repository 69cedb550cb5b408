"""A real Kubernetes control plane on loopback, with kwok playing the kubelets."""

from __future__ import annotations

import json
import os
import secrets
from dataclasses import dataclass, field
from pathlib import Path

from ecdsa import NIST256p, SigningKey

from nearfar import process
from nearfar.guard import Guard
from nearfar.ports import free_port
from nearfar.process import Child

from . import stages
from .api import Api
from .binaries import Binaries

SERVICE_RANGE = "10.128.0.0/16"
_READY_TIMEOUT_S = 120


@dataclass(slots=True)
class Plane:
    """The processes of one control plane; everything they keep lies in `home`."""

    binaries: Binaries
    home: Path
    guard: Guard
    token: str = field(default_factory=lambda: secrets.token_hex(16))
    port: int = field(default_factory=free_port)
    parts: list[Child] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    @property
    def ca(self) -> str:
        """The certificate that the API server made for itself."""
        return (self.home / "certs" / "apiserver.crt").read_text()

    def api(self) -> Api:
        """A client with all rights."""
        return Api(self.url, self.token, self.ca)

    def kubeconfig(self) -> str:
        """A kubeconfig with all rights; JSON, which is YAML too."""
        return kubeconfig(self.url, self.token, str(self.home / "certs" / "apiserver.crt"))

    def start(self) -> None:
        """Start etcd, the API server, then all that hangs on it."""
        self.home.mkdir(parents=True, exist_ok=True)
        key = self._write("sa.key", SigningKey.generate(curve=NIST256p).to_pem().decode())
        tokens = self._write("tokens.csv", f'{self.token},admin,admin,"system:masters"\n')
        store, peer = free_port(), free_port()
        self._start("etcd", _etcd(store, peer, self.home / "etcd"))
        server = self._start("kube-apiserver", self._apiserver(store, key, tokens))
        process.wait_until(self._up, server, _READY_TIMEOUT_S, "did not become ready")
        self._start_clients(key)

    def stop(self) -> None:
        """End every process, the last started first."""
        for part in reversed(self.parts):
            part.stop()
        self.parts.clear()

    def check(self) -> None:
        """Raise if one of the processes has ended."""
        for part in self.parts:
            part.check()

    def _start_clients(self, key: Path) -> None:
        config = self._write("kubeconfig.json", self.kubeconfig())
        manager = [
            f"--kubeconfig={config}",
            f"--service-account-private-key-file={key}",
            f"--root-ca-file={self.home / 'certs' / 'apiserver.crt'}",
            "--leader-elect=false",
            "--secure-port=0",
            # A loaded machine is no reason to call a node lost.
            "--node-monitor-grace-period=1h",
        ]
        self._start("kube-controller-manager", manager)
        scheduler = [f"--kubeconfig={config}", "--leader-elect=false", "--secure-port=0"]
        self._start("kube-scheduler", scheduler)
        played = self._write("stages.yaml", stages.text(self.binaries.stages))
        selector = "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake"
        self._start(
            "kwok",
            [f"--kubeconfig={config}", f"--config={played}", selector, "--cidr=10.2.0.0/16"],
        )

    def _apiserver(self, store: int, key: Path, tokens: Path) -> list[str]:
        return [
            f"--etcd-servers=http://127.0.0.1:{store}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            "--endpoint-reconciler-type=none",
            f"--secure-port={self.port}",
            f"--cert-dir={self.home / 'certs'}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={key}",
            f"--service-account-signing-key-file={key}",
            f"--service-cluster-ip-range={SERVICE_RANGE}",
            f"--token-auth-file={tokens}",
            "--authorization-mode=RBAC",
            "--allow-privileged=true",
        ]

    def _up(self) -> bool:
        if not (self.home / "certs" / "apiserver.crt").exists():
            return False
        with self.api() as api:
            return api.ready()

    def _start(self, name: str, flags: list[str]) -> Child:
        env = {"PATH": os.environ["PATH"], "HOME": str(self.home)}
        child = process.start(
            name,
            [str(self.binaries.path(name)), *flags],
            log=self.home / f"{name}.log",
            env=env,
            guard=self.guard,
            cwd=self.home,
        )
        self.parts.append(child)
        return child

    def _write(self, name: str, text: str) -> Path:
        path = self.home / name
        path.write_text(text)
        path.chmod(0o600)
        return path


def kubeconfig(url: str, token: str, ca_file: str) -> str:
    """The form that LKE hands out: one cluster, one user with a token, one context."""
    cluster = {"server": url, "certificate-authority": ca_file}
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "lke", "cluster": cluster}],
            "users": [{"name": "lke-admin", "user": {"token": token}}],
            "contexts": [{"name": "lke-ctx", "context": {"cluster": "lke", "user": "lke-admin"}}],
            "current-context": "lke-ctx",
        }
    )


def _etcd(client: int, peer: int, data: Path) -> list[str]:
    return [
        f"--data-dir={data}",
        f"--listen-client-urls=http://127.0.0.1:{client}",
        f"--advertise-client-urls=http://127.0.0.1:{client}",
        f"--listen-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
        f"--initial-cluster=default=http://127.0.0.1:{peer}",
        "--unsafe-no-fsync",
        "--log-level=warn",
    ]
