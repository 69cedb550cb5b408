-- Ends one request: frees its slots, puts the real tokens in the place of the reserved ones, and
-- adds to the month's counts. It acts once for a request, so that it may be sent again.
--
-- KEYS  1 once   2 usage   3 spent, then log, live and state of each owner      as in reserve.lua
-- ARGV  1 request id   2 holder's token   3 tokens generated, or -1 to undo the reservation
--       4 milliseconds for which a second settlement is known as one
--       5 seconds for which the month's counts live   6 the tenant's field in spent
--       7... field, increment, field, increment ... of usage
-- Returns 1, or 0 where it was settled before or the request id is another's.
local once, usage, spent = KEYS[1], KEYS[2], KEYS[3]
local id, token, generated = ARGV[1], ARGV[2], tonumber(ARGV[3])

local holder = redis.call('GET', once)
if holder and holder ~= token then
  return 0
end
redis.call('SET', once, 'settled', 'PX', ARGV[4])

for at = 4, #KEYS, 3 do
  local log, live, state = KEYS[at], KEYS[at + 1], KEYS[at + 2]
  local amounts = redis.call('HMGET', state, 'w:' .. id, 'h:' .. id)
  local reserved, held = amounts[1], amounts[2]
  if reserved and generated < 0 then
    redis.call('ZREM', log, id)
    redis.call('HDEL', state, 'w:' .. id)
    redis.call('HINCRBY', state, 'w', 0 - reserved)
  elseif reserved then
    redis.call('HSET', state, 'w:' .. id, generated)
    redis.call('HINCRBY', state, 'w', generated - reserved)
  end
  if held then
    redis.call('ZREM', live, id)
    redis.call('HDEL', state, 'h:' .. id)
    redis.call('HINCRBY', state, 'h', 0 - held)
  end
end

for at = 7, #ARGV, 2 do
  redis.call('HINCRBY', usage, ARGV[at], ARGV[at + 1])
end
if #ARGV >= 7 then
  redis.call('EXPIRE', usage, ARGV[5])
end
if generated > 0 then
  redis.call('HINCRBY', spent, ARGV[6], generated)
  redis.call('EXPIRE', spent, ARGV[5])
end
return 1
