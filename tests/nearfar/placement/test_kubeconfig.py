from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest
import yaml

from nearfar.errors import BadInput
from nearfar.placement import kubeconfig

SECRET = "canary-token-51"


def config(**changes: Any) -> dict[str, Any]:
    """A kubeconfig with a token, as `kubectl create token` users have one."""
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "a",
        "contexts": [
            {"name": "a", "context": {"cluster": "c", "user": "u", "namespace": "gpu"}},
            {"name": "b", "context": {"cluster": "c", "user": "u"}},
        ],
        "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:8001/"}}],
        "users": [{"name": "u", "user": {"token": SECRET}}],
        **changes,
    }


def written(tmp_path: Path, document: object) -> Path:
    path = tmp_path / "kube.yaml"
    path.write_text(document if isinstance(document, str) else yaml.safe_dump(document))
    return path


def user(**fields: str) -> dict[str, Any]:
    return {"users": [{"name": "u", "user": fields}]}


def cluster(**fields: Any) -> dict[str, Any]:
    named = {name.replace("_", "-"): value for name, value in fields.items()}
    return {"clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1", **named}}]}


def test_the_current_context_is_taken(tmp_path: Path) -> None:
    found = kubeconfig.read(written(tmp_path, config()))
    assert ("http://127.0.0.1:8001", "gpu", SECRET) == (found.server, found.namespace, found.token)
    assert SECRET not in repr(found)


def test_another_context_is_taken_by_its_name(tmp_path: Path) -> None:
    assert "default" == kubeconfig.read(written(tmp_path, config()), "b").namespace


def test_a_token_may_lie_in_a_file_beside_it(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(f"{SECRET}\n")
    found = kubeconfig.read(written(tmp_path, config(**user(tokenFile="token"))))
    assert SECRET == found.token


def test_a_server_without_a_trusted_certificate_is_asked_when_the_file_says_so(
    tmp_path: Path,
) -> None:
    given = config(**cluster(insecure_skip_tls_verify=True))
    found = kubeconfig.read(written(tmp_path, given))
    assert found.tls is not None
    assert not found.tls.check_hostname


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ("{", "is not YAML"),
        ("[1]", "is no kubeconfig"),
        ("", "is no kubeconfig"),
        (config(**{"current-context": ""}), "names no context"),
        (config(**{"current-context": "z"}), "has no context 'z'"),
        (config(contexts=[]), "has no context 'a'"),
        (config(contexts=None), "has no context 'a'"),
        (config(clusters=[]), "has no cluster 'c'"),
        (config(users=[{"name": "u"}]), "has no user 'u'"),
        (config(clusters=[{"name": "c", "cluster": {}}]), "without a server"),
        (config(**cluster(certificate_authority_data="!")), "is no base64"),
        (config(**cluster(certificate_authority_data="aGVsbG8=")), "certificate or key"),
        (config(**cluster(certificate_authority="absent.pem")), "names a file"),
        (config(**user(exec="x")), "proves itself by exec"),
    ],
)
def test_what_is_wrong_is_told_in_one_line_without_a_secret(
    tmp_path: Path, document: object, said: str
) -> None:
    with pytest.raises(BadInput, match=said) as caught:
        kubeconfig.read(written(tmp_path, document))
    assert SECRET not in caught.value.message
    assert "\n" not in caught.value.message


def test_a_file_that_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        kubeconfig.read(tmp_path / "absent")


def test_a_client_certificate_that_is_none_leaves_no_file_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "t"))
    (tmp_path / "t").mkdir()
    none = base64.b64encode(b"no pem").decode()
    given = config(**cluster(), users=[
        {"name": "u", "user": {"client-certificate-data": none, "client-key-data": none}}
    ])  # fmt: skip
    with pytest.raises(BadInput, match="certificate or key"):
        kubeconfig.read(written(tmp_path, given))
    assert [] == list((tmp_path / "t").iterdir())
