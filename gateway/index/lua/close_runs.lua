-- Close the runs of committed submissions of one board, and add those not settled yet to its pending set.
-- KEYS[1] pending zset   KEYS[2] settled zset
-- KEYS[3..] per submission: the player's open runs, the player's runs by the hour
-- ARGV[1] life of the counts (ms)
-- ARGV[2..] per submission: submission id (string), received at (ms), 1 if it is pending or 0 if it was
--   decided at once, field to count it in (string)
-- Returns the number added to the pending set.
-- Clock: the caller's, in `received at`. Idempotent: a run is counted when it is closed, which happens once.

local hour_ms = 3600000
local added = 0
for at = 2, #ARGV, 4 do
  local id, received_ms, is_pending = ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2] == '1'
  if redis.call('ZREM', KEYS[2 + at / 2], id) == 1 then
    redis.call('HINCRBY', KEYS[3 + at / 2], ARGV[at + 3], 1)
    redis.call('PEXPIRE', KEYS[3 + at / 2], ARGV[1])
  end
  if not is_pending then
    redis.call('ZADD', KEYS[2], 'NX', received_ms, id)
    redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', received_ms - hour_ms)
  elseif not redis.call('ZSCORE', KEYS[2], id) then
    added = added + redis.call('ZADD', KEYS[1], 'NX', received_ms, id)
  end
end
return added
