-- Ends one request: frees its slot, puts the real tokens in the place of the reserved ones, and
-- adds to the month's counts. It acts once for a request, so that it may be sent again.
--
-- KEYS  1 once   2 log   3 live   4 state   5 usage      as in reserve.lua
-- ARGV  1 request id   2 holder's token   3 tokens generated, or -1 to undo the reservation
--       4 milliseconds for which a second settlement is known as one
--       5 seconds for which the month's counts live
--       6... field, increment, field, increment ... of usage
-- Returns 1, or 0 where it was settled before or the request id is another's.
local once, log, live, state, usage = KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5]
local id, token, generated = ARGV[1], ARGV[2], tonumber(ARGV[3])

local holder = redis.call('GET', once)
if holder and holder ~= token then
  return 0
end
redis.call('SET', once, 'settled', 'PX', ARGV[4])

local reserved = redis.call('HGET', state, 'w:' .. id)
if reserved and generated < 0 then
  redis.call('ZREM', log, id)
  redis.call('HDEL', state, 'w:' .. id)
  redis.call('HINCRBY', state, 'w', 0 - reserved)
elseif reserved then
  redis.call('HSET', state, 'w:' .. id, generated)
  redis.call('HINCRBY', state, 'w', generated - reserved)
end

local held = redis.call('HGET', state, 'h:' .. id)
if held then
  redis.call('ZREM', live, id)
  redis.call('HDEL', state, 'h:' .. id)
  redis.call('HINCRBY', state, 'h', 0 - held)
end

for at = 6, #ARGV, 2 do
  redis.call('HINCRBY', usage, ARGV[at], ARGV[at + 1])
end
if #ARGV >= 6 then
  redis.call('EXPIRE', usage, ARGV[5])
end
return 1
