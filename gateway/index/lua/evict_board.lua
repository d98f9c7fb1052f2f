-- Remove the keys of an unused board from Redis, and mark the board as cold, in one step.
-- KEYS[1] mark of use   KEYS[2] sentinel   KEYS[3] mark of a cold board   KEYS[4] lease of a rebuild
-- KEYS[5] residents of the lane   KEYS[6] its idle boards   KEYS[7] its tails
-- KEYS[8..] the keys to remove
-- ARGV[1] time (Unix ms)   ARGV[2] board   ARGV[3] 1 if the board is marked, 0 if nothing of it is kept
-- Returns 1, or 0 without any change if the board is in use, not whole, or being rebuilt.
-- Clock: the caller's, in ARGV[1]. Idempotent.

if redis.call('EXISTS', KEYS[1], KEYS[4]) > 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return 0
end
redis.call('ZREM', KEYS[5], ARGV[2])
redis.call('ZREM', KEYS[6], ARGV[2])
redis.call('ZREM', KEYS[7], ARGV[2])
for at = 8, #KEYS do
  redis.call('UNLINK', KEYS[at])
end
redis.call('DEL', KEYS[2])
if ARGV[3] == '1' then
  redis.call('HSET', KEYS[3], '*', ARGV[1])
end
return 1
