-- Adds players to the estimate of how many there ever were on a board, if that is there.
-- KEYS[1] the estimate (HyperLogLog)
-- ARGV per player: the id (string)
-- Returns 1, or 0 if there is no estimate: count everybody anew.
-- Clock: none. Idempotent: a player who was added counts once.

if redis.call('EXISTS', KEYS[1]) == 0 then
  return 0
end
for at = 1, #ARGV do
  redis.call('PFADD', KEYS[1], ARGV[at])
end
return 1
