"""The HTTP/1.1 that the fakes speak: reading requests and writing heads and chunks."""

from dataclasses import dataclass
from http import HTTPStatus

END_OF_CHUNKS = b"0\r\n\r\n"


class BadMessage(Exception):
    """The bytes are not HTTP/1.1 that the fake understands."""


@dataclass(frozen=True, slots=True)
class Head:
    """A request's head: its line and its headers as they came."""

    method: str
    path: str
    version: str
    headers: list[tuple[str, str]]

    def value(self, name: str) -> str | None:
        """The first value of a lower-case header name."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def keeps_alive(self) -> bool:
        """Whether the connection stays open after the answer (RFC 9112 section 9.3)."""
        return self.version == "HTTP/1.1" and (self.value("connection") or "").lower() != "close"


class RequestReader:
    """Collects bytes and gives whole requests, one after the other."""

    __slots__ = ("_buffer", "_head", "wants_continue")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._head: Head | None = None
        self.wants_continue = False

    def feed(self, data: bytes) -> None:
        """Takes more bytes."""
        self._buffer += data

    def take(self) -> tuple[Head, bytes] | None:
        """The next whole request, or None when more bytes are needed."""
        if self._head is None:
            self._head = self._take_head()
            if self._head is None:
                return None
            self.wants_continue = (self._head.value("expect") or "").lower() == "100-continue"
        body = self._take_body(self._head)
        if body is None:
            return None
        head, self._head, self.wants_continue = self._head, None, False
        return head, body

    def _take_head(self) -> Head | None:
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0:
            return None
        first, *lines = self._buffer[:end].decode("latin-1").split("\r\n")
        del self._buffer[: end + 4]
        try:
            method, path, version = first.split(" ")
            pairs = [line.split(":", 1) for line in lines]
            return Head(method, path, version, [(name, value.strip()) for name, value in pairs])
        except ValueError as error:
            raise BadMessage(f"not a request head: {first!r}") from error

    def _take_body(self, head: Head) -> bytes | None:
        if (head.value("transfer-encoding") or "").lower() == "chunked":
            taken = dechunk(self._buffer)
            if taken is None:
                return None
            body, used = taken
        else:
            used = int(head.value("content-length") or 0)
            if len(self._buffer) < used:
                return None
            body = bytes(self._buffer[:used])
        del self._buffer[:used]
        return body


def dechunk(buffer: bytes | bytearray) -> tuple[bytes, int] | None:
    """The chunked body that `buffer` starts with and its coded length; None until it is whole."""
    parts: list[bytes] = []
    position = 0
    while True:
        end = buffer.find(b"\r\n", position)
        if end < 0:
            return None
        size = int(buffer[position:end].split(b";")[0], 16)
        start = end + 2
        if len(buffer) < start + size + 2:
            return None
        if size == 0:
            # Trailers are read over up to the empty line that ends them.
            last = buffer.find(b"\r\n\r\n", end)
            return None if last < 0 else (b"".join(parts), last + 4)
        parts.append(bytes(buffer[start : start + size]))
        position = start + size + 2


def chunk(data: bytes) -> bytes:
    """One chunk of the chunked coding (RFC 9112 section 7.1)."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def head(status: int, headers: tuple[tuple[str, str], ...]) -> bytes:
    """The head of an answer."""
    phrase = HTTPStatus(status).phrase if status in _KNOWN else "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}", *(f"{name}: {value}" for name, value in headers)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


_KNOWN = frozenset(status.value for status in HTTPStatus)
