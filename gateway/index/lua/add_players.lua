-- Add players to a board's estimate of distinct players, if there is one.
-- KEYS[1] the estimate (HyperLogLog)
-- ARGV per player: the id (string)
-- Returns 1, or 0 if there is no estimate: all players must then be counted again.
-- Clock: none. Idempotent: a player who is added again counts once.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
for at = 1, #ARGV do
  redis.call('PFADD', KEYS[1], ARGV[at])
end
return 1
