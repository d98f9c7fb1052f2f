-- Closes the runs of committed submissions of one board, and puts each on its pending set unless it is settled already.
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3..] per submission: the player's open runs
-- ARGV per submission: submission id (string), received at (ms), 1 if it is pending, 0 if it was decided at once
-- Returns how many were put on the pending set.
-- Clock: the caller's, in `received at`. Idempotent.

local hour_ms = 3600000
local added = 0
for at = 1, #ARGV, 3 do
  local id, received_ms, is_pending = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  redis.call('ZREM', KEYS[3 + (at - 1) / 3], id)
  if not is_pending then
    redis.call('ZADD', KEYS[2], 'NX', received_ms, id)
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', received_ms - hour_ms)
  elseif not redis.call('ZSCORE', KEYS[2], id) then
    added = added + redis.call('ZADD', KEYS[1], 'NX', received_ms, id)
  end
end
return added
