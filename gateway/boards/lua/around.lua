-- A player's entry in a window, with its neighbours.
-- include: _entries
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] names hash
-- ARGV[1] player id   ARGV[2] neighbours on each side (count)
-- Returns {total, first rank from 0, entries}, or false for a player without a standing; entries as in page.lua.
-- Clock: none. Read-only.

local slot = redis.call('HGET', KEYS[2], ARGV[1])
local member = slot and string.match(slot, '^%d+ (%S*)') or ''
local rank = member ~= '' and redis.call('ZRANK', KEYS[1], member)
if not rank then
  return false
end
local first = math.max(0, rank - tonumber(ARGV[2]))
return { redis.call('ZCARD', KEYS[1]), first, entries(KEYS[1], KEYS[2], KEYS[3], first, rank + tonumber(ARGV[2])) }
