-- Notes a run as open, unless the player has too many open.
-- KEYS[1] the player's open runs
-- ARGV[1] run id (string)   ARGV[2] now (ms)   ARGV[3] expiry of the ticket (ms)   ARGV[4] most open runs (count)
-- Returns 1 if it is noted, 0 if there are too many.
-- Clock: the caller's. Idempotent by the run id.

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) and redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then
  return 0
end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[3])
return 1
