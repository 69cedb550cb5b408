"""The fakes are tested too: a test that leans on one is worth what the fake is worth."""

import asyncio
import json
import time
from typing import Any

import openai
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import wire
from fakes.ask import expected_text
from fakes.link import Link, LinkThread
from fakes.script import METRICS, Script, error_script, http_date_in
from fakes.upstream import Upstream, UpstreamThread

# A loaded machine delays what a timer starts; nothing is ever early.
LATE_S = 0.05


def ask(text: str = "one two three", **fields: Any) -> dict[str, Any]:
    """A chat request body for the model `mock`."""
    return {"model": "mock", "messages": [{"role": "user", "content": text}], **fields}


def request_bytes(body: dict[str, Any] | bytes, *, headers: str = "") -> bytes:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: u\r\n{headers}"
    return f"{head}Content-Length: {len(data)}\r\n\r\n".encode() + data


async def answer_of(port: int, sent: bytes) -> tuple[bytes, list[tuple[float, bytes]], bool]:
    """Sends bytes and reads to the end: (all bytes, (time, bytes) of each read, was reset)."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(sent)
    reads: list[tuple[float, bytes]] = []
    was_reset = False
    try:
        while data := await reader.read(65536):
            reads.append((time.monotonic(), data))
            if data.endswith(wire.END_OF_CHUNKS):
                break
    except ConnectionResetError:
        was_reset = True
    writer.close()
    return b"".join(data for _, data in reads), reads, was_reset


async def stream_of(script: Script, **fields: Any) -> bytes:
    """The body bytes of one streamed answer, as they were on the wire."""
    async with Upstream(script) as u:
        raw, _, _ = await answer_of(u.port, request_bytes(ask(stream=True, **fields)))
    _, _, coded = raw.partition(b"\r\n\r\n")
    body = wire.dechunk(coded)
    assert body is not None
    return body[0]


def chunks_of(body: bytes) -> list[Any]:
    """The parsed data of an LF-framed stream, `[DONE]` as a string."""
    lines = [line[6:] for line in body.decode().split("\n") if line.startswith("data: ")]
    return [line if line == "[DONE]" else json.loads(line) for line in lines]


def deltas_of(body: bytes, field: str = "content") -> list[str]:
    chunks = [chunk for chunk in chunks_of(body) if chunk != "[DONE]" and "choices" in chunk]
    texts = [choice["delta"].get(field) for chunk in chunks for choice in chunk["choices"]]
    return [text for text in texts if text]


class TestAnswers:
    def test_the_openai_client_reads_the_echo_streamed_and_not(self) -> None:
        with UpstreamThread() as u, openai.OpenAI(base_url=f"{u.url}/v1", api_key="k") as client:
            body = ask("grüß dich, welt")
            whole = client.chat.completions.create(**body)
            parts = list(
                client.chat.completions.create(
                    **body, stream=True, stream_options={"include_usage": True}
                )
            )
        text = "".join(p.choices[0].delta.content or "" for p in parts if p.choices)
        assert expected_text(body) == text == whole.choices[0].message.content
        assert whole.usage is not None
        assert (3, 3, 6) == (
            whole.usage.prompt_tokens,
            whole.usage.completion_tokens,
            whole.usage.total_tokens,
        )
        assert whole.usage == parts[-1].usage

    async def test_a_stream_is_role_content_finish_usage_and_done(self) -> None:
        body = await stream_of(Script(metrics=METRICS), stream_options={"include_usage": True})
        role, first, *_, finish, usage, done = chunks_of(body)
        assert {"role": "assistant", "content": ""} == role["choices"][0]["delta"]
        assert {"content": "one"} == first["choices"][0]["delta"]
        assert "stop" == finish["choices"][0]["finish_reason"]
        assert [] == usage["choices"]
        assert METRICS == usage["metrics"]
        assert "[DONE]" == done

    async def test_the_usage_chunk_comes_only_when_asked_for(self) -> None:
        assert all("usage" not in c for c in chunks_of(await stream_of(Script())))

    async def test_metrics_are_absent_for_more_than_one_choice(self) -> None:
        options = {"include_usage": True}
        body = await stream_of(Script(metrics=METRICS), n=2, stream_options=options)
        usage = chunks_of(body)[-2]
        assert 6 == usage["usage"]["completion_tokens"]
        assert "metrics" not in usage

    async def test_two_choices_take_turns_and_are_told_apart(self) -> None:
        expected = ["one", "one(1)", " two", " two(1)", " three", " three(1)"]
        assert expected == deltas_of(await stream_of(Script(), n=2))

    async def test_max_tokens_cuts_the_answer_with_finish_reason_length(self) -> None:
        body = await stream_of(Script(), max_tokens=2)
        assert ["one", " two"] == deltas_of(body)
        assert "length" == chunks_of(body)[-2]["choices"][0]["finish_reason"]

    async def test_reasoning_tool_calls_and_logprobs_are_scripted(self) -> None:
        script = Script(reasoning=("hm", " so"), tool_calls=(("look", '{"q":"x"}'),))
        body = await stream_of(script)
        calls = [chunk for chunk in chunks_of(body)[:-1] if "tool_calls" in str(chunk["choices"])]
        functions = [c["choices"][0]["delta"]["tool_calls"][0]["function"] for c in calls[:-1]]
        assert ["hm", " so"] == deltas_of(body, "reasoning")
        assert "look" == functions[0]["name"]
        assert '{"q":"x"}' == "".join(function["arguments"] for function in functions)
        assert "tool_calls" == chunks_of(body)[-2]["choices"][0]["finish_reason"]
        tokens = chunks_of(await stream_of(Script(), logprobs=True))[1]["choices"][0]["logprobs"]
        assert "one" == tokens["content"][0]["token"]

    async def test_pieces_chunks_usage_and_unknown_fields_are_scripted(self) -> None:
        mail = ("dana.q@exa", "mple.test")
        assert list(mail) == deltas_of(await stream_of(Script(pieces=mail)))
        assert 16 == len(deltas_of(await stream_of(Script(chunks=16))))
        script = Script(usage={"completion_tokens": 23}, extra={"x_new": [1]})
        body = await stream_of(script, stream_options={"include_usage": True})
        assert {"completion_tokens": 23} == chunks_of(body)[-2]["usage"]
        assert all([1] == chunk["x_new"] for chunk in chunks_of(body)[:-1])


class TestFraming:
    @pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
    async def test_line_ends_are_on_the_wire(self, end: str) -> None:
        body = await stream_of(Script(line_end=end))
        assert body.endswith(f"data: [DONE]{end}{end}".encode())
        others = {"\n": b"\r", "\r\n": b"\n\n", "\r": b"\n"}
        assert others[end] not in body

    async def test_bom_comments_fields_and_the_missing_space_are_on_the_wire(self) -> None:
        body = await stream_of(Script(bom=True, comments=True, space=False, event_fields=True))
        assert body.startswith(
            b"\xef\xbb\xbf: a comment\nid: 7\nevent: message\nretry: 3000\ndata:{"
        )
        assert 1 == body.count(b"\xef\xbb\xbf")

    async def test_several_data_lines_join_to_the_same_json(self) -> None:
        body = await stream_of(Script(split_data=True))
        event = body.split(b"\n\n")[1].decode().split("\n")
        assert len(event) > 5
        joined = json.loads("\n".join(line.removeprefix("data: ") for line in event))
        assert "one" == joined["choices"][0]["delta"]["content"]

    async def test_one_byte_a_write_splits_characters_and_keeps_the_bytes(self) -> None:
        async with Upstream(Script(write_bytes=1, content="ü")) as u:
            raw, _, _ = await answer_of(u.port, request_bytes(ask(stream=True)))
        _, _, coded = raw.partition(b"\r\n\r\n")
        assert b"1\r\n\xc3\r\n1\r\n\xbc\r\n" in coded
        assert ["ü"] == deltas_of(await stream_of(Script(write_bytes=1, content="ü")))

    async def test_all_at_once_is_one_chunk(self) -> None:
        async with Upstream(Script(write_bytes=0, chunks=16)) as u:
            raw, _, _ = await answer_of(u.port, request_bytes(ask(stream=True)))
        _, _, coded = raw.partition(b"\r\n\r\n")
        size = int(coded.split(b"\r\n")[0], 16)
        assert len(coded) == len(b"%x\r\n" % size) + size + 2 + len(wire.END_OF_CHUNKS)

    async def test_a_stream_may_end_by_close_or_by_length(self) -> None:
        async with Upstream() as u:
            u.enqueue(Script(framing="close"), Script(framing="length"))
            sent = request_bytes(ask(stream=True))
            closed, _, _ = await answer_of(u.port, sent)
            length = request_bytes(ask(stream=True), headers="Connection: close\r\n")
            counted, _, _ = await answer_of(u.port, length)
        assert b"transfer-encoding" not in closed
        head, _, body = counted.partition(b"\r\n\r\n")
        assert f"content-length: {len(body)}".encode() in head


class TestPace:
    async def test_head_role_reasoning_and_content_come_when_scripted(self) -> None:
        script = Script(
            role_ms=10,
            comment_ms=20,
            reasoning=("hm",),
            reasoning_ms=60,
            first_content_ms=120,
            gap_ms=30,
        )
        async with Upstream(script) as u:
            _, reads, _ = await answer_of(u.port, request_bytes(ask("a b", stream=True)))
            t0 = u.requests[0].t_received
        marks = {"role": 0.010, "keep-alive": 0.020, "hm": 0.060, '"a"': 0.120, '" b"': 0.150}
        for mark, expected_s in marks.items():
            seen = next(t for t, data in reads if mark.encode() in data) - t0
            assert expected_s <= seen <= expected_s + LATE_S, mark

    async def test_the_head_waits_and_a_whole_body_comes_when_the_stream_would_end(self) -> None:
        script = Script(head_ms=30, first_content_ms=50, gap_ms=10)
        async with Upstream(script) as u:
            sent = request_bytes(ask("a b c"), headers="Connection: close\r\n")
            _, reads, _ = await answer_of(u.port, sent)
            record = u.requests[0]
        assert 0.070 <= reads[0][0] - record.t_received <= 0.070 + LATE_S
        assert record.t_head_sent is not None
        assert record.finished


class TestErrors:
    @pytest.mark.parametrize("after", ["7", http_date_in(30)])
    async def test_status_headers_and_body_are_sent_as_scripted(self, after: str) -> None:
        script = error_script(429, "slow down", headers=(("Retry-After", after),))
        async with Upstream(script) as u:
            sent = request_bytes(ask(), headers="Connection: close\r\n")
            raw, _, _ = await answer_of(u.port, sent)
        assert raw.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
        assert f"\r\nRetry-After: {after}\r\n".encode() in raw
        assert "slow down" == json.loads(raw.partition(b"\r\n\r\n")[2])["error"]["message"]

    async def test_a_401_echoes_the_key_it_got(self) -> None:
        async with Upstream(Script(status=401, echo_key=True)) as u:
            headers = "Authorization: Bearer canary\r\nConnection: close\r\n"
            raw, _, _ = await answer_of(u.port, request_bytes(ask(), headers=headers))
        assert b"Bearer canary" in raw

    async def test_the_wrong_key_an_unknown_model_and_a_bad_body_are_refused(self) -> None:
        async with Upstream(api_key="right") as u:
            key = "Authorization: Bearer right\r\nConnection: close\r\n"
            wrong = request_bytes(ask(), headers="Connection: close\r\n")
            assert b" 401 " in (await answer_of(u.port, wrong))[0]
            other = request_bytes({**ask(), "model": "other"}, headers=key)
            assert b" 404 " in (await answer_of(u.port, other))[0]
            for bad in (b"[]", b"{", b'{"model":"mock","messages":[1]}'):
                assert b" 400 " in (await answer_of(u.port, request_bytes(bad, headers=key)))[0]

    async def test_an_error_frame_is_followed_by_done_and_no_finish(self) -> None:
        body = await stream_of(Script(end="error", end_after=2))
        *chunks, error, done = chunks_of(body)
        assert ["one", " two"] == deltas_of(body)
        assert 500 == error["error"]["code"]
        assert "[DONE]" == done
        assert all(chunk["choices"][0]["finish_reason"] is None for chunk in chunks)

    async def test_done_may_be_missing(self) -> None:
        assert "[DONE]" != chunks_of(await stream_of(Script(end="no_done")))[-1]

    def test_a_script_that_contradicts_itself_is_refused(self) -> None:
        for fields in (
            {"end": "done", "end_after": 1},
            {"end": "done", "end_before_head": True},
            {"end": "rst", "framing": "length"},
            {"line_end": "\n\r"},
            {"gap_ms": -1},
        ):
            with pytest.raises(ValueError, match=r"\w"):
                Script(**fields)


class TestEnds:
    @pytest.mark.parametrize(("end", "reset"), [("fin", False), ("rst", True)])
    async def test_a_stream_breaks_off_after_the_asked_deltas(self, end: Any, reset: bool) -> None:
        script = Script(chunks=100, gap_ms=5, end=end, end_after=3)
        async with Upstream(script) as u:
            raw, _, was_reset = await answer_of(u.port, request_bytes(ask(stream=True)))
            record = u.requests[0]
        assert reset == was_reset
        assert 3 == record.chunks_sent
        assert b" three" in raw
        assert wire.END_OF_CHUNKS not in raw
        assert not record.finished
        assert record.t_closed_by_peer is None

    async def test_half_an_event_may_leave_before_the_break(self) -> None:
        async with Upstream(Script(end="fin", end_after=1, end_mid_frame=True)) as u:
            raw, _, _ = await answer_of(u.port, request_bytes(ask(stream=True)))
        assert b" two" not in raw
        assert 3 == raw.count(b"data: ")

    @pytest.mark.parametrize("stream", [True, False])
    async def test_no_answer_at_all_until_the_peer_goes(self, stream: bool) -> None:
        async with Upstream(Script(end="hang", end_before_head=True)) as u:
            reader, writer = await asyncio.open_connection("127.0.0.1", u.port)
            writer.write(request_bytes(ask(stream=stream)))
            await u.wait_for_request()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
            assert 1 == u.active
            gone = time.monotonic()
            writer.close()
            assert 0 <= await u.wait_closed(0) - gone <= LATE_S
            await asyncio.sleep(0)
            assert (0, 1) == (u.active, u.peak_active)

    async def test_a_client_that_goes_in_the_middle_is_logged_and_the_stream_ends(self) -> None:
        async with Upstream(Script(chunks=100, gap_ms=10)) as u:
            reader, writer = await asyncio.open_connection("127.0.0.1", u.port)
            writer.write(request_bytes(ask(stream=True)))
            await reader.readuntil(b" three")
            gone = time.monotonic()
            writer.close()
            assert 0 <= await u.wait_closed(0) - gone <= LATE_S
            sent = u.requests[0].chunks_sent
            await asyncio.sleep(0.05)
            assert sent == u.requests[0].chunks_sent < 100
            assert not u.requests[0].finished

    async def test_a_stopped_server_resets_its_streams(self) -> None:
        u = Upstream(Script(chunks=100, gap_ms=10))
        await u.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", u.port)
        writer.write(request_bytes(ask(stream=True)))
        await reader.readuntil(b" two")
        await u.stop()
        with pytest.raises(ConnectionResetError):
            await reader.readuntil(b"never")
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.open_connection("127.0.0.1", u.port)


class TestLog:
    async def test_headers_keep_order_case_and_repeats_and_numbers_their_digits(self) -> None:
        headers = "X-B: 2\r\nx-a: 1\r\nX-B: 3\r\nConnection: close\r\n"
        async with Upstream() as u:
            await answer_of(u.port, request_bytes(ask(big=2**53 + 1), headers=headers))
        record = u.requests[0]
        assert [("X-B", "2"), ("x-a", "1"), ("X-B", "3")] == record.headers[1:4]
        assert "2" == record.header("x-b")
        assert 2**53 + 1 == record.json["big"]

    async def test_one_connection_carries_requests_one_after_the_other(self) -> None:
        async with Upstream() as u:
            sent = request_bytes(ask("a", stream=True))
            reader, writer = await asyncio.open_connection("127.0.0.1", u.port)
            writer.write(sent + sent)
            for _ in range(2):
                await reader.readuntil(wire.END_OF_CHUNKS)
            writer.close()
        assert 1 == u.connections
        assert [True, True] == [record.finished for record in u.requests]

    async def test_scripts_are_queued_then_marked_then_by_model_then_the_default(self) -> None:
        scripts = {"other": Script(content="by model")}
        async with Upstream(Script(content="default"), scripts=scripts) as u:
            u.marked["MARK"] = Script(content="marked")
            u.enqueue(Script(content="queued"))
            bodies = (ask("MARK"), ask("a MARK"), {**ask(), "model": "other"}, ask())
            texts = []
            for body in bodies:
                sent = request_bytes(body, headers="Connection: close\r\n")
                raw, _, _ = await answer_of(u.port, sent)
                message = json.loads(raw.partition(b"\r\n\r\n")[2])["choices"][0]["message"]
                texts.append(message["content"])
        assert ["queued", "marked", "by model", "default"] == texts

    async def test_models_and_health_are_not_in_the_chat_log(self) -> None:
        async with Upstream(models=("m1", "m2")) as u:
            get = b"GET %b HTTP/1.1\r\nConnection: close\r\n\r\n"
            models, _, _ = await answer_of(u.port, get % b"/v1/models")
            health, _, _ = await answer_of(u.port, get % b"/health")
            missing, _, _ = await answer_of(u.port, get % b"/nothing")
        listed = json.loads(models.partition(b"\r\n\r\n")[2])["data"]
        assert ["m1", "m2"] == [card["id"] for card in listed]
        assert health.startswith(b"HTTP/1.1 200 ")
        assert missing.startswith(b"HTTP/1.1 404 ")
        assert (0, 3) == (len(u.requests), len(u.others))

    async def test_waiting_in_vain_says_for_what(self) -> None:
        async with Upstream() as u:
            with pytest.raises(TimeoutError, match=r"request 1 within 0\.01 s"):
                await u.wait_for_request(timeout_s=0.01)


class TestWire:
    @given(st.lists(st.binary(min_size=1, max_size=20), max_size=4), st.integers(1, 7))
    def test_a_chunked_request_reads_the_same_at_every_split(
        self, parts: list[bytes], step: int
    ) -> None:
        head = b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"
        sent = head + b"".join(map(wire.chunk, parts)) + wire.END_OF_CHUNKS + b"GET"
        reader = wire.RequestReader()
        taken = []
        for start in range(0, len(sent), step):
            reader.feed(sent[start : start + step])
            request = reader.take()
            if request is not None:
                taken.append(request[1])
        assert [b"".join(parts)] == taken

    def test_what_is_not_a_request_is_refused(self) -> None:
        reader = wire.RequestReader()
        reader.feed(b"nonsense\r\n\r\n")
        with pytest.raises(wire.BadMessage, match="nonsense"):
            reader.take()


class TestLink:
    async def test_each_direction_is_late_by_its_own_delay(self) -> None:
        async with Upstream() as u, Link("127.0.0.1", u.port, up_ms=15, down_ms=25) as link:
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            await asyncio.sleep(0.05)  # the handshake's time has passed
            late_up, late_down = [], []
            for i in range(20):
                sent = time.monotonic()
                writer.write(request_bytes(ask(stream=True)))
                await reader.readuntil(wire.END_OF_CHUNKS)
                record = u.requests[i]
                assert record.t_finished is not None
                late_up.append(record.t_received - sent)
                late_down.append(time.monotonic() - record.t_finished)
            writer.close()
        assert 0.0145 <= min(late_up) < 0.016
        assert 0.0245 <= min(late_down) < 0.026
        assert (1, 20) == (link.connections, link.round_trips)

    async def test_the_first_bytes_pay_the_handshake(self) -> None:
        async with Upstream() as u, Link("127.0.0.1", u.port, up_ms=20, down_ms=30) as link:
            sent = time.monotonic()
            await answer_of(link.port, request_bytes(ask(stream=True)))
            arrived = u.requests[0].t_received - sent
        assert 0.070 <= arrived <= 0.070 + LATE_S

    async def test_swallowing_keeps_the_connection_and_passes_nothing(self) -> None:
        async with Upstream() as u, Link("127.0.0.1", u.port) as link:
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            await link.swallow()
            writer.write(request_bytes(ask(stream=True)))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(reader.read(1), 0.1)
            assert [] == u.requests
            await link.resume()
            writer.write(request_bytes(ask(stream=True)))
            await reader.readuntil(wire.END_OF_CHUNKS)
            writer.close()

    async def test_a_cut_resets_both_sides_and_new_connections_pass(self) -> None:
        script = Script(end="hang", end_after=1)
        async with Upstream() as u, Link("127.0.0.1", u.port) as link:
            u.enqueue(script)
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            writer.write(request_bytes(ask(stream=True)))
            await reader.readuntil(b"one")
            await link.cut()
            with pytest.raises(ConnectionResetError):
                await reader.readuntil(b"never")
            writer.close()
            await u.wait_closed(0)
            raw, _, _ = await answer_of(link.port, request_bytes(ask(stream=True)))
            assert raw.endswith(wire.END_OF_CHUNKS)

    async def test_a_client_that_goes_is_seen_behind_the_link_after_the_delay(self) -> None:
        async with (
            Upstream(Script(chunks=100, gap_ms=10)) as u,
            Link("127.0.0.1", u.port, up_ms=30) as link,
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", link.port)
            writer.write(request_bytes(ask(stream=True)))
            await reader.readuntil(b" two")
            gone = time.monotonic()
            writer.close()
            assert 0.030 <= await u.wait_closed(0) - gone <= 0.030 + LATE_S

    def test_a_refusing_link_refuses_until_it_resumes_at_the_same_port(self) -> None:
        with (
            UpstreamThread() as u,
            LinkThread("127.0.0.1", u.fake.port) as link,
            openai.OpenAI(base_url=f"{link.url}/v1", api_key="k", max_retries=0) as client,
        ):
            assert client.chat.completions.create(**ask()).choices
            link.refuse()
            with pytest.raises(openai.APIConnectionError):
                client.chat.completions.create(**ask())
            link.resume()
            assert client.chat.completions.create(**ask()).choices
        assert 2 == len(u.requests)


class TestSlots:
    async def test_who_finds_no_slot_waits_its_turn_and_its_times_begin_then(self) -> None:
        async with Upstream(Script(chunks=2, gap_ms=100), slots=2) as u:
            began = time.monotonic()
            await asyncio.gather(
                *(answer_of(u.port, request_bytes(ask(stream=True))) for _ in range(5))
            )
            taken = time.monotonic() - began
            assert 0.3 <= taken < 0.3 + 6 * LATE_S
            starts = sorted(r.t_started or 0.0 for r in u.requests)
            assert starts[2] - starts[1] >= 0.1
            assert starts[4] - starts[3] >= 0.1

    async def test_who_leaves_while_it_waits_takes_no_slot(self) -> None:
        async with Upstream(Script(chunks=3, gap_ms=100), slots=1) as u:
            first = asyncio.create_task(answer_of(u.port, request_bytes(ask(stream=True))))
            await u.wait_for_request(1)
            _, writer = await asyncio.open_connection("127.0.0.1", u.port)
            writer.write(request_bytes(ask(stream=True)))
            await u.wait_for_request(2)
            writer.close()
            await first
            began = time.monotonic()
            await answer_of(u.port, request_bytes(ask(stream=True)))
            assert time.monotonic() - began < 0.2 + 3 * LATE_S
            assert u.requests[1].t_started is None
