"""The near store's operations as Redis commands, and their replies as results. Pure."""

from __future__ import annotations

from . import resp
from .errors import StoreDown
from .ports import Add, Claim, Delete, Get, Operation, Put, Renew, Result, Slice, Spend, Unspend

_CLAIM = b"""if redis.call('EXISTS', KEYS[2]) == 1 then return 0 end
return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) and 1 or 0"""
_RENEW = b"""if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""
_ADD = b"""redis.call('INCRBY', KEYS[1], ARGV[1])
return redis.call('PEXPIRE', KEYS[1], ARGV[2])"""
# A log of the window's events by their microsecond, so that no window holds more than the most.
_SPEND = b"""local most, window = tonumber(ARGV[2]), tonumber(ARGV[3]) * 1000
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', string.format('%.0f', now - window))
local count = redis.call('ZCARD', KEYS[1])
if count >= most then
local first = redis.call('ZRANGE', KEYS[1], count - most, count - most, 'WITHSCORES')
return math.ceil(((first[2] or now) + window - now) / 1000)
end
redis.call('ZADD', KEYS[1], string.format('%.0f', now), ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
return count + 1 - most"""
_DELETE = b"""if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])"""


def hello(user: str, password: str, database: str) -> list[bytes]:
    """What a new connection says first."""
    greeting = []
    if password:
        credentials = [user, password] if user else [password]
        greeting.append(resp.command(b"AUTH", *(part.encode() for part in credentials)))
    if database and database != "0":
        greeting.append(resp.command(b"SELECT", database.encode()))
    return greeting


def parts(operation: Operation) -> tuple[bytes, ...]:
    """One operation as one command: its name and arguments."""
    key = operation.key.encode()
    match operation:
        case Get():
            return b"GET", key
        case Slice(start=start):
            return b"GETRANGE", key, b"%d" % start, b"-1"
        case Put(value=value, ttl_ms=ttl_ms):
            return b"SET", key, value, b"PX", b"%d" % ttl_ms
        case Claim(value=value, ttl_ms=ttl_ms, unless=unless):
            return _script(_CLAIM, (key, unless.encode()), value, b"%d" % ttl_ms)
        case Renew(value=value, ttl_ms=ttl_ms):
            return _script(_RENEW, (key,), value, b"%d" % ttl_ms)
        case Add(amount=amount, ttl_ms=ttl_ms):
            return _script(_ADD, (key,), b"%d" % amount, b"%d" % ttl_ms)
        case Spend(event=event, most=most, window_ms=window_ms):
            return _script(_SPEND, (key,), event.encode(), b"%d" % most, b"%d" % window_ms)
        case Unspend(event=event):
            return b"ZREM", key, event.encode()
        case Delete(value=value):
            return (b"DEL", key) if value is None else _script(_DELETE, (key,), value)


def result(operation: Operation, reply: resp.Value) -> Result:
    """A reply as the port has it.

    Raises:
        StoreDown: for an error reply, or one of another shape.
    """
    if isinstance(reply, resp.RespError):
        raise StoreDown("The store refused the operation.")
    if isinstance(operation, Get | Slice):
        if reply is None or isinstance(reply, bytes):
            return reply
    elif isinstance(operation, Put):
        if reply == b"OK":
            return True
    elif isinstance(operation, Spend):
        if isinstance(reply, int):
            return reply
    elif isinstance(reply, int):
        return bool(reply)
    raise StoreDown("The store answered in another shape.")


def _script(script: bytes, keys: tuple[bytes, ...], *arguments: bytes) -> tuple[bytes, ...]:
    return b"EVAL", script, b"%d" % len(keys), *keys, *arguments
