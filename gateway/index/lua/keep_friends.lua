-- Keeps a copy of whom a player follows, unless a newer one is there, and lets go of those that were read longest ago.
-- KEYS[1] hash of copies   KEYS[2] zset of their players by when each was last used (µs)
-- ARGV[1] player id (string)   ARGV[2] version (whole number)   ARGV[3] what is kept: the version and the player ids
-- ARGV[4] how long it is kept (ms)   ARGV[5] most bytes of all copies in the hash, as `size` counts them
-- Returns 1 if it is kept, 0 if a newer one, or the same, is there, or if it is larger than all may be.
-- Clock: Redis TIME. Idempotent: only a higher version replaces another while that is kept.

local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])
local player, version, list = ARGV[1], tonumber(ARGV[2]), ARGV[3]
local life_us, most = tonumber(ARGV[4]) * 1000, tonumber(ARGV[5])
local each = 256 -- what an entry of both takes beside its texts: 156 to 171 in Valkey 9.1 at 20,000 entries, rounded up
local bytes = tonumber(redis.call('HGET', KEYS[1], '*') or '') or 0

local function size(whose, held)
  return each + 2 * #whose + #held
end
local function drop(whose)
  local held = redis.call('HGET', KEYS[1], whose)
  bytes = held and bytes - size(whose, held) or bytes
  redis.call('HDEL', KEYS[1], whose)
  redis.call('ZREM', KEYS[2], whose)
end

local until_us, kept = string.match(redis.call('HGET', KEYS[1], player) or '', '^(%d+) (%d+)')
if until_us and tonumber(until_us) > now_us and tonumber(kept) >= version then
  return 0
end
drop(player)
local value = string.format('%.0f %s', now_us + life_us, list)
if size(player, value) > most then
  return 0
end
while bytes + size(player, value) > most do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  if not oldest then -- what is counted is in neither: somebody else wrote here
    redis.call('DEL', KEYS[1])
    bytes = 0
    break
  end
  drop(oldest)
end
redis.call('HSET', KEYS[1], player, value, '*', string.format('%.0f', bytes + size(player, value)))
redis.call('ZADD', KEYS[2], string.format('%.0f', now_us), player)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
redis.call('PEXPIRE', KEYS[2], ARGV[4])
return 1
