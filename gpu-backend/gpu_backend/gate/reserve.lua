-- Decides on one request and holds what it may use, in one step. Nothing is held by a refusal.
--
-- One who has limits is an owner: the API key, and its tenant where that has some. A request is let
-- in when every owner has room for it.
--
-- KEYS  1 once     string  who used this request id first
--       2 usage    hash    this month's counts (docs/gate.md)
--       3 spent    hash    this month's tokens of each tenant
--       4 revoked  string  JSON {key id: second from which it is revoked}
--       then for the key, and for the tenant if it has limits:
--         log      zset    request id -> microsecond of its admission, of the last 60 s
--         live     zset    request id -> microsecond at which its lease ends
--         state    hash    w:ID tokens counted in the window, w their sum;
--                          h:ID tokens held by a live request, h their sum
-- ARGV  1 now in microseconds, empty: this server's clock   2 request id   3 holder's token
--       4 key id   5 key id as JSON   6 tokens to reserve   7 lease in microseconds
--       8 milliseconds for which the request id stays used
--       9 the prefix of the key's fields in usage   10 the tenant's field in spent
--       then for each owner: requests a minute, tokens a minute, parallel, tokens a month;
--         -1: no limit
-- Returns as one text with spaces between, which is read faster than a list: verdict, which owner,
--   microseconds to wait, and for each owner requests left, microseconds until no request counts,
--   tokens left, microseconds until no token counts; left is -1 without a limit.
local WINDOW = 60000000
local OK, REPLAYED, REVOKED, REQUESTS, TOKENS, PARALLEL, MONTH = 0, 1, 2, 3, 4, 5, 6
local id, reserve, lease = ARGV[2], tonumber(ARGV[6]), tonumber(ARGV[7])

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local function exact(number)
  return string.format('%.0f', number)
end

if not redis.call('SET', KEYS[1], ARGV[3], 'NX', 'PX', ARGV[8]) then
  return REPLAYED .. ' 1 0'
end

-- The list is looked at as text first: decoding it costs, and hardly ever is this key in it.
local list = redis.call('GET', KEYS[4])
if list and string.find(list, ARGV[5], 1, true) then
  local read, since = pcall(function() return cjson.decode(list)[ARGV[4]] end)
  if read and type(since) == 'number' and since * 1000000 <= now then
    return REVOKED .. ' 1 0'
  end
end

-- An amount leaves with its member: w:ID with log, h:ID with live.
local function drop(state, set, upto, prefix)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', set, '-inf', exact(upto))) do
    local amount = redis.call('HGET', state, prefix .. ':' .. gone)
    if amount then
      redis.call('HINCRBY', state, prefix, 0 - amount)
      redis.call('HDEL', state, prefix .. ':' .. gone)
    end
    redis.call('ZREM', set, gone)
  end
end

local owners = {}
for at = 1, (#KEYS - 4) / 3 do
  local keys, limits = 2 + 3 * at, 7 + 4 * at
  local owner = {
    log = KEYS[keys], live = KEYS[keys + 1], state = KEYS[keys + 2],
    rpm = tonumber(ARGV[limits]), tpm = tonumber(ARGV[limits + 1]),
    par = tonumber(ARGV[limits + 2]), month = tonumber(ARGV[limits + 3]),
  }
  drop(owner.state, owner.log, now - WINDOW, 'w')
  drop(owner.state, owner.live, now, 'h')
  owner.requests = redis.call('ZCARD', owner.log)
  local sums = redis.call('HMGET', owner.state, 'w', 'h')
  owner.tokens, owner.held = tonumber(sums[1] or 0), tonumber(sums[2] or 0)
  owners[at] = owner
end

local function spent(at)
  if at == 2 then
    return redis.call('HGET', KEYS[3], ARGV[10]) or 0
  end
  local fields = redis.call('HMGET', KEYS[2], ARGV[9] .. 'generated', ARGV[9] .. 'estimated')
  return (fields[1] or 0) + (fields[2] or 0)
end

-- When one more request would fit: the entries above the limit, and one more, have left by then.
local function wait_for_request(owner)
  local oldest = owner.requests - owner.rpm
  local entry = redis.call('ZRANGE', owner.log, oldest, oldest, 'WITHSCORES')
  return entry[2] and entry[2] + WINDOW - now or WINDOW
end

-- When so many tokens would fit: the oldest entries leave until there is room.
local function wait_for_tokens(owner)
  local excess = owner.tokens + reserve - owner.tpm
  local entries = redis.call('ZRANGE', owner.log, 0, -1, 'WITHSCORES')
  for at = 1, #entries, 2 do
    excess = excess - (redis.call('HGET', owner.state, 'w:' .. entries[at]) or 0)
    if excess <= 0 then
      return entries[at + 1] + WINDOW - now
    end
  end
  return WINDOW
end

local verdict, whose, wait = OK, 1, 0
for at, owner in ipairs(owners) do
  if verdict == OK and owner.month >= 0 and spent(at) + owner.held + reserve > owner.month then
    verdict, whose = MONTH, at
  end
end
for at, owner in ipairs(owners) do
  if verdict == OK and owner.par >= 0 and redis.call('ZCARD', owner.live) >= owner.par then
    verdict, whose = PARALLEL, at
  end
end
if verdict == OK then
  local function consider(reached, at, longer)
    if longer > wait then
      verdict, whose, wait = reached, at, longer
    end
  end
  for at, owner in ipairs(owners) do
    if owner.rpm >= 0 and owner.requests >= owner.rpm then
      consider(REQUESTS, at, wait_for_request(owner))
    end
    if owner.tpm >= 0 and owner.tokens + reserve > owner.tpm then
      consider(TOKENS, at, wait_for_tokens(owner))
    end
  end
end

local reply = {verdict, whose, exact(math.ceil(wait))}
for _, owner in ipairs(owners) do
  local reset = 0
  if verdict == OK then
    redis.call('ZADD', owner.log, exact(now), id)
    redis.call('ZADD', owner.live, exact(now + lease), id)
    redis.call('HSET', owner.state, 'w:' .. id, reserve, 'h:' .. id, reserve)
    redis.call('HINCRBY', owner.state, 'w', reserve)
    redis.call('HINCRBY', owner.state, 'h', reserve)
    -- All three end together: a sum in `state` must not outlive the set that it is the sum of.
    for _, key in ipairs({owner.log, owner.live, owner.state}) do
      redis.call('PEXPIRE', key, exact((WINDOW + lease) / 1000))
    end
    owner.requests, owner.tokens = owner.requests + 1, owner.tokens + reserve
    reset = WINDOW
  elseif owner.rpm >= 0 or owner.tpm >= 0 then
    local newest = redis.call('ZRANGE', owner.log, -1, -1, 'WITHSCORES')
    reset = newest[2] and newest[2] + WINDOW - now or 0
  end
  for _, number in ipairs({
    owner.rpm >= 0 and math.max(0, owner.rpm - owner.requests) or -1, reset,
    owner.tpm >= 0 and math.max(0, owner.tpm - owner.tokens) or -1, owner.tokens > 0 and reset or 0,
  }) do
    reply[#reply + 1] = exact(number)
  end
end
return table.concat(reply, ' ')
