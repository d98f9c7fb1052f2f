-- Record a run as open unless the player has too many, and count it among the player's runs of the day.
-- KEYS[1] the player's open runs   KEYS[2] the player's runs by the hour
-- ARGV[1] run id (string)   ARGV[2] now (ms)   ARGV[3] expiry of the ticket (ms)
-- ARGV[4] most open runs (count)
-- ARGV[5] the current hour (hours since 1970)   ARGV[6] field to count it in (string)
-- ARGV[7] life of the counts (ms)
-- Returns {1 if it is recorded or 0 if there are too many, runs opened in the 24 hours before it, runs
--   submitted then}.
-- Clock: the caller's. Idempotent by the run id, but for the counts that it returns.

local opened, submitted = 0, 0
local counts = redis.call('HGETALL', KEYS[2])
for at = 1, #counts, 2 do
  local kind, hour = string.match(counts[at], '^(%a+):(%d+)$')
  if not hour or tonumber(hour) <= tonumber(ARGV[5]) - 24 then
    redis.call('HDEL', KEYS[2], counts[at])
  elseif kind == 'opened' then
    opened = opened + tonumber(counts[at + 1])
  else
    submitted = submitted + tonumber(counts[at + 1])
  end
end

redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', ARGV[2])
-- A run that expires five minutes after this one was opened by a clock that ran ahead; it must not count for
-- ever.
redis.call('ZREMRANGEBYSCORE', KEYS[1], tonumber(ARGV[3]) + 300000, '+inf')
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then
  if redis.call('ZCARD', KEYS[1]) >= tonumber(ARGV[4]) then
    return { 0, opened, submitted }
  end
  redis.call('HINCRBY', KEYS[2], ARGV[6], 1)
  redis.call('PEXPIRE', KEYS[2], ARGV[7])
end
redis.call('ZADD', KEYS[1], ARGV[3], ARGV[1])
redis.call('PEXPIREAT', KEYS[1], ARGV[3])
return { 1, opened, submitted }
