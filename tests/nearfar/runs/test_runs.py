"""A run's file is read whole, cut at every byte, and with broken lines that are named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fakes import sample as fake
from nearfar import runs
from nearfar.errors import BadInput
from nearfar.runs import reader

HEADER = runs.Header(
    run="r1",
    started_at="2026-11-30T12:00:00.000+00:00",
    nearfar="0.1.0",
    command=("bench", "--rate", "2"),
    target=runs.TargetOf("http://127.0.0.1:3000", "mock"),
    load=runs.Load(process="poisson", rate_per_s=2.0, requests=2),
    workload=runs.Workload(source="prompts", name="prompts.txt", requests=2),
    objectives=runs.Objectives(first_content_ms=300.0),
    clock=runs.Clock("time.perf_counter", 1e-9),
)
OK = runs.Sample(
    i=0,
    scheduled_s=1.0,
    sent_s=1.01,
    headers_s=1.02,
    first_content_s=1.11,
    first_answer_s=1.11,
    last_content_s=1.51,
    end_s=1.52,
    gaps_ms=(100.0, 100.0, 100.0, 100.0),
    status=200,
    outcome="ok",
    usage=runs.Usage(10, 5, None),
    prompt_id="p0",
    record=fake.miss(),
)
BAD = runs.Sample(
    i=1,
    sent_s=2.0,
    outcome="refused",
    status=503,
    error=runs.Failure("upstream_busy", "server_error"),
    prompt_id="é\u2028",
    not_available={"first_content_s": "refused"},
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    where = tmp_path / "deep" / "run.jsonl"
    with runs.RunWriter(where, HEADER) as writer:
        writer.add(OK)
        writer.add(BAD)
        writer.end()
    return where


def test_what_was_written_is_read_again(path: Path) -> None:
    found = runs.read(path)
    assert HEADER == found.header
    assert (OK, BAD) == found.samples
    assert found.end is not None
    assert ("done", 2) == (found.end.reason, found.end.requests)
    assert found.is_whole


def test_every_line_is_there_before_the_run_ends(tmp_path: Path) -> None:
    writer = runs.RunWriter(tmp_path / "r.jsonl", HEADER)
    writer.add(OK)
    assert (OK,) == runs.read(writer.path).samples
    writer.__exit__(None, None, None)


def test_a_file_cut_at_any_byte_after_its_header_gives_what_was_whole(path: Path) -> None:
    data = path.read_bytes()
    ends = [n + 1 for n, byte in enumerate(data) if byte == ord("\n")]
    for cut in range(ends[0] - 1, len(data) + 1):
        found = reader.parse(data[:cut], "r")
        # A line is whole with its last brace: the line end after it may be missing.
        whole = sum(cut >= end - 1 for end in ends[1:])
        assert (OK, BAD)[:whole] == found.samples
        assert (whole == 3) == (found.end is not None)


def test_a_file_cut_in_its_header_is_no_run(path: Path) -> None:
    header = path.read_bytes().split(b"\n")[0]
    for cut in range(len(header)):
        with pytest.raises(BadInput, match=r"r is not a run of nearfar"):
            reader.parse(header[:cut], "r")


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"{", "it is not JSON"),
        (b"[1]", "it is not an object"),
        (b"", "it is not JSON"),
        (b"\xff\xfe", "it is not JSON"),
        (b'{"kind":"x"}', "it is neither a request nor an end"),
        (b'{"kind":"request"}', "i is missing"),
        (b'{"kind":"request","i":true}', "i is not a whole number"),
        (b'{"kind":"request","i":1,"phase":"x"}', "phase is none of warmup, measured"),
        (b'{"kind":"request","i":1,"sent_s":"2"}', "sent_s is not a number"),
        (b'{"kind":"request","i":1,"sent_s":1,"gaps_ms":[1,"x"]}', "gaps_ms is not a number"),
        (
            b'{"kind":"request","i":1,"sent_s":1,"outcome":"ok","usage":{"output_tokens":"x"}}',
            r"usage\.output_tokens is not a whole number",
        ),
    ],
)
def test_a_broken_line_is_named_with_what_is_wrong(path: Path, line: bytes, why: str) -> None:
    lines = path.read_bytes().split(b"\n")
    lines.insert(2, line)
    with pytest.raises(BadInput, match=rf"^r, line 3 is broken: {why}\.$"):
        reader.parse(b"\n".join(lines), "r")


def test_nothing_stands_after_the_end(path: Path) -> None:
    data = path.read_bytes()
    with pytest.raises(BadInput, match="line 5 is broken: it stands after the end"):
        reader.parse(data + data.split(b"\n")[1] + b"\n", "r")


def test_a_run_of_another_form_says_so() -> None:
    line = json.dumps({"kind": "header", "schema": "nearfar.run/9"}).encode() + b"\n"
    with pytest.raises(BadInput, match=r"another form than nearfar\.run/1"):
        reader.parse(line, "r")


def test_fields_of_a_later_version_are_left_out(path: Path) -> None:
    lines = path.read_bytes().split(b"\n")
    lines[1] = json.dumps(json.loads(lines[1]) | {"new": 1}).encode()
    assert OK == reader.parse(b"\n".join(lines), "r").samples[0]


def test_a_file_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot be read"):
        runs.read(tmp_path / "none.jsonl")


def test_a_run_is_never_written_over(path: Path) -> None:
    with pytest.raises(BadInput, match="is there already"):
        runs.RunWriter(path, HEADER)


def _left(where: Path, error: type[BaseException]) -> None:
    with runs.RunWriter(where, HEADER) as writer:
        writer.add(OK)
        raise error


@pytest.mark.parametrize(
    ("error", "reason"), [(KeyboardInterrupt, "interrupted"), (ValueError, "failed")]
)
def test_how_a_run_ended_is_written_down(
    tmp_path: Path, error: type[BaseException], reason: str
) -> None:
    where = tmp_path / "r.jsonl"
    with pytest.raises(error):
        _left(where, error)
    found = runs.read(where)
    assert found.end is not None
    assert (reason, 1) == (found.end.reason, found.end.requests)
    assert not found.is_whole


def test_durations_come_from_the_instants() -> None:
    assert OK.first_content_ms == pytest.approx(100)
    assert OK.from_schedule_ms == pytest.approx(110)
    assert OK.late_ms == pytest.approx(10)
    assert OK.end_to_end_ms == pytest.approx(510)
    assert OK.tpot_ms == pytest.approx(100)
    assert OK.recorded("derived.unattributed") == 8.0
    assert (None, None, None) == (BAD.first_content_ms, BAD.tpot_ms, BAD.from_schedule_ms)
    assert BAD.recorded("derived.unattributed") is None


def test_the_error_rate_counts_measured_requests_and_leaves_out_what_we_ended() -> None:
    gone = runs.Sample(i=2, sent_s=3.0, outcome="aborted", prompt_id="p")
    warm = runs.Sample(i=3, sent_s=0.0, outcome="failed", prompt_id="p", phase="warmup")
    assert 0.5 == runs.Run(HEADER, (warm, OK, BAD, gone)).error_rate
    assert runs.Run(HEADER).error_rate is None
