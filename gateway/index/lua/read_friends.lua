-- Read the copy of a player's friend list, and record its use.
-- KEYS[1] hash of copies   KEYS[2] zset of their players by when each was last used (µs)
-- ARGV[1] player id (string)
-- Returns the version and the player ids, or false if no copy is there or it has expired.
-- Clock: Redis TIME. Idempotent: it writes only the time of use.

local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local until_us, list = string.match(redis.call('HGET', KEYS[1], ARGV[1]) or '', '^(%d+) (.+)$')
if not until_us or tonumber(until_us) <= now_us then
  return false
end
redis.call('ZADD', KEYS[2], 'XX', string.format('%.0f', now_us), ARGV[1])
return list
