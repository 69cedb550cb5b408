-- Decides on one request and holds what it may use, in one step. Nothing is held by a refusal.
--
-- KEYS  1 once     string  who used this request id first
--       2 log      zset    request id -> microsecond of its admission, of the last 60 s
--       3 live     zset    request id -> microsecond at which its lease ends
--       4 state    hash    w:ID tokens counted in the window, w their sum;
--                          h:ID tokens held by a live request, h their sum
--       5 usage    hash    this month's counts (docs/gate.md)
--       6 revoked  string  JSON {key id: second from which it is revoked}
-- ARGV  1 now in microseconds, empty: this server's clock   2 request id   3 holder's token
--       4 key id   5 key id as JSON   6 tokens to reserve
--       7 requests a minute   8 tokens a minute   9 parallel   10 tokens a month; -1: no limit
--       11 lease in microseconds   12 milliseconds for which the request id stays used
--       13 the prefix of the key's fields in usage
-- Returns {verdict, requests left, microseconds until no request counts, tokens left,
--          microseconds until no token counts, microseconds to wait}; left is -1 without a limit.
local WINDOW = 60000000
local OK, REPLAYED, REVOKED, REQUESTS, TOKENS, PARALLEL, MONTH = 0, 1, 2, 3, 4, 5, 6
local once, log, live, state, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, reserve = ARGV[2], tonumber(ARGV[6])
local rpm, tpm, par, month = tonumber(ARGV[7]), tonumber(ARGV[8]), tonumber(ARGV[9]), tonumber(ARGV[10])
local lease = tonumber(ARGV[11])

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local function exact(number)
  return string.format('%.0f', number)
end

if not redis.call('SET', once, ARGV[3], 'NX', 'PX', ARGV[12]) then
  return {REPLAYED, -1, 0, -1, 0, 0}
end

-- The list is looked at as text first: decoding it costs, and hardly ever is this key in it.
local list = redis.call('GET', KEYS[6])
if list and string.find(list, ARGV[5], 1, true) then
  local read, since = pcall(function() return cjson.decode(list)[ARGV[4]] end)
  if read and type(since) == 'number' and since * 1000000 <= now then
    return {REVOKED, -1, 0, -1, 0, 0}
  end
end

-- An amount leaves with its member: w:ID with log, h:ID with live.
local function drop(set, upto, prefix)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', exact(upto))) do
    local amount = redis.call('HGET', state, prefix .. ':' .. gone)
    if amount then
      redis.call('HINCRBY', state, prefix, 0 - amount)
      redis.call('HDEL', state, prefix .. ':' .. gone)
    end
    redis.call('ZREM', set, gone)
  end
end
drop(log, now - WINDOW, 'w')
drop(live, now, 'h')

local requests = redis.call('ZCARD', log)
local sums = redis.call('HMGET', state, 'w', 'h')
local tokens, held = tonumber(sums[1] or 0), tonumber(sums[2] or 0)

-- When one more request would fit: the entries above the limit, and one more, have left by then.
local function wait_for_request()
  local entry = redis.call('ZRANGE', log, requests - rpm, requests - rpm, 'WITHSCORES')
  return entry[2] and entry[2] + WINDOW - now or WINDOW
end

-- When so many tokens would fit: the oldest entries leave until there is room.
local function wait_for_tokens()
  local excess = tokens + reserve - tpm
  local entries = redis.call('ZRANGE', log, 0, -1, 'WITHSCORES')
  for at = 1, #entries, 2 do
    excess = excess - (redis.call('HGET', state, 'w:' .. entries[at]) or 0)
    if excess <= 0 then
      return entries[at + 1] + WINDOW - now
    end
  end
  return WINDOW
end

local verdict, wait = OK, 0
if month >= 0 then
  local fields = redis.call('HMGET', usage, ARGV[13] .. 'generated', ARGV[13] .. 'estimated')
  if (fields[1] or 0) + (fields[2] or 0) + held + reserve > month then
    verdict = MONTH
  end
end
if verdict == OK and par >= 0 and redis.call('ZCARD', live) >= par then
  verdict = PARALLEL
end
if verdict == OK and rpm >= 0 and requests >= rpm then
  verdict, wait = REQUESTS, wait_for_request()
end
if (verdict == OK or verdict == REQUESTS) and tpm >= 0 and tokens + reserve > tpm then
  local longer = wait_for_tokens()
  if longer > wait then
    verdict, wait = TOKENS, longer
  end
end

if verdict == OK then
  redis.call('ZADD', log, exact(now), id)
  redis.call('ZADD', live, exact(now + lease), id)
  redis.call('HSET', state, 'w:' .. id, reserve, 'h:' .. id, reserve)
  redis.call('HINCRBY', state, 'w', reserve)
  redis.call('HINCRBY', state, 'h', reserve)
  -- All three end together: a sum in `state` must not outlive the set that it is the sum of.
  for _, key in ipairs({log, live, state}) do
    redis.call('PEXPIRE', key, exact((WINDOW + lease) / 1000))
  end
  requests, tokens = requests + 1, tokens + reserve
end

local newest = redis.call('ZRANGE', log, -1, -1, 'WITHSCORES')
local reset = newest[2] and newest[2] + WINDOW - now or 0
return {
  verdict,
  rpm >= 0 and math.max(0, rpm - requests) or -1, reset,
  tpm >= 0 and math.max(0, tpm - tokens) or -1, tokens > 0 and reset or 0,
  math.ceil(wait),
}
