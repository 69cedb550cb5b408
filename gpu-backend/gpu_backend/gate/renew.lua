-- Lets a request that still runs keep its slots. One whose lease ended while its gate could not
-- reach this server is put back: it does run.
--
-- KEYS  log, live and state of each owner      as in reserve.lua
-- ARGV  1 now in microseconds, empty: this server's clock   2 request id
--       3 lease in microseconds   4 tokens reserved
local id, lease = ARGV[2], tonumber(ARGV[3])

local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

for at = 1, #KEYS, 3 do
  local live, state = KEYS[at + 1], KEYS[at + 2]
  redis.call('ZADD', live, string.format('%.0f', now + lease), id)
  if redis.call('HSETNX', state, 'h:' .. id, ARGV[4]) == 1 then
    redis.call('HINCRBY', state, 'h', ARGV[4])
  end
end
-- All three end together: a sum in `state` must not outlive the set that it is the sum of.
for _, key in ipairs(KEYS) do
  redis.call('PEXPIRE', key, string.format('%.0f', 60000 + lease / 1000))
end
return 1
