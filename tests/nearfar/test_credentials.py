"""The local stack's secrets: made once, kept, and never shown."""

from __future__ import annotations

from pathlib import Path

import pytest

from edge_frontend.keys import MIN_SECRET_CHARS
from nearfar import credentials
from nearfar.errors import BadInput


def test_secrets_are_made_once_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    made = credentials.ensure(path)
    assert MIN_SECRET_CHARS <= len(made.key_secret)
    assert made == credentials.ensure(path)


def test_a_secret_that_an_older_file_lacks_is_made_and_the_others_stay(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    path.write_text('{"key_secret": "%s", "engine_key": "e"}' % ("k" * 40))
    made = credentials.ensure(path)
    assert ("k" * 40, "e") == (made.key_secret, made.engine_key)
    assert MIN_SECRET_CHARS <= len(made.gate_secret)
    assert made == credentials.ensure(path) == credentials.load(path)


def test_the_file_is_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    credentials.ensure(path)
    assert 0o600 == path.stat().st_mode & 0o777
    assert [path] == list(tmp_path.iterdir())


def test_no_secret_stands_in_the_text_of_the_value() -> None:
    assert "Credentials()" == repr(credentials.Credentials("aaa", "bbb", "ccc", "ddd"))


def test_rotating_keeps_the_old_secret_as_the_previous_one(tmp_path: Path) -> None:
    old = credentials.ensure(tmp_path / "secrets.json")
    new = credentials.rotated(old)
    assert old.key_secret == new.key_secret_previous
    assert old.key_secret != new.key_secret
    assert old.engine_key == new.engine_key


@pytest.mark.parametrize("text", ["", "{", "[]", '{"other": "field"}', '{"key_secret": 5}'])
def test_a_broken_file_is_refused_without_showing_it(tmp_path: Path, text: str) -> None:
    path = tmp_path / "secrets.json"
    path.write_text(text)
    with pytest.raises(BadInput, match="is not a secrets file") as caught:
        credentials.load(path)
    assert caught.value.__cause__ is None


def test_a_bare_secret_in_a_file_serves_as_the_operators(tmp_path: Path) -> None:
    path = tmp_path / "secret"
    path.write_text("x" * 40 + "\n")
    assert "x" * 40 == credentials.operator_secret(path)


def test_a_secrets_file_serves_as_the_operators_secret(tmp_path: Path) -> None:
    path = tmp_path / "secrets.json"
    assert credentials.ensure(path).key_secret == credentials.operator_secret(path)


def test_without_a_file_the_environment_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEARFAR_KEY_SECRET", "y" * 40)
    assert "y" * 40 == credentials.operator_secret(None)
    monkeypatch.delenv("NEARFAR_KEY_SECRET")
    assert credentials.operator_secret(None) is None
