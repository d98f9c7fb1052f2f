-- Puts committed submissions of one board on its pending set, unless they are settled already, and closes their runs.
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3..] per submission: the player's open runs
-- ARGV per submission: submission id (string), received at (ms)
-- Returns how many were added.
-- Clock: none. Idempotent.

local added = 0
for at = 1, #ARGV, 2 do
  local id = ARGV[at]
  redis.call('ZREM', KEYS[3 + (at - 1) / 2], id)
  if not redis.call('ZSCORE', KEYS[2], id) then
    added = added + redis.call('ZADD', KEYS[1], 'NX', ARGV[at + 1], id)
  end
end
return added
