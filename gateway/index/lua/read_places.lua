-- Read where players stand in a window, and as of which change.
-- include: _slots
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] changes stream of the lane
-- ARGV per player: its id
-- Returns {id of the newest entry of the stream (empty: there is none), places}; a place is {order (decimal),
--   member, rank from 0}, or empty for a player without a standing.
-- Clock: none. Read-only.

local newest = redis.call('XREVRANGE', KEYS[3], '+', '-', 'COUNT', 1)
local places = {}
for at = 1, #ARGV do
  local player = ARGV[at]
  local member = member_in(redis.call('HGET', KEYS[2], player), player)
  local order = member ~= '' and redis.call('ZSCORE', KEYS[1], member)
  places[at] = order and { order, member, redis.call('ZRANK', KEYS[1], member) } or {}
end
return { newest[1] and newest[1][1] or '', places }
