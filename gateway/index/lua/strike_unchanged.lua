-- Take a board out of a set of its lane unless its time was changed meanwhile.
-- KEYS[1] the set
-- ARGV[1] board   ARGV[2] time that it must have (Unix ms)
-- Returns 1, or 0 without any change.
-- Clock: none. Idempotent.

if tonumber(redis.call('ZSCORE', KEYS[1], ARGV[1]) or -1) ~= tonumber(ARGV[2]) then
  return 0
end
return redis.call('ZREM', KEYS[1], ARGV[1])
