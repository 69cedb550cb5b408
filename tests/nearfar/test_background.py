"""What `nearfar up --detach` hands on to the process in the background."""

from __future__ import annotations

from nearfar.background import arguments

GIVEN = {
    "port": 3001,
    "host": "wasmtime",
    "upstream": "http://127.0.0.1:8000",
    "upstream_key": "hush",
    "model": "mock",
    "store_url": "redis://:hush@127.0.0.1:1/0",
    "context_tokens": 0,
    "gate": True,
    "as_json": True,
    "detach": True,
    "question": None,
    "once": False,
    "verbose": False,
    "max_instance_reuse_count": None,
}


def test_options_are_handed_on_as_they_were_given() -> None:
    line = " ".join(arguments(GIVEN))
    assert "--port 3001 --host wasmtime --upstream http://127.0.0.1:8000 --model mock" in line
    assert line.endswith("--gate")


def test_a_flag_that_was_not_given_is_not_handed_on() -> None:
    assert "--gate" not in arguments(GIVEN | {"gate": False})


def test_what_is_for_the_foreground_is_not_handed_on() -> None:
    line = " ".join(arguments(GIVEN))
    for option in ("json", "detach", "question", "once", "verbose", "reuse"):
        assert option not in line


def test_no_secret_stands_on_the_command_line() -> None:
    assert "hush" not in " ".join(arguments(GIVEN))
