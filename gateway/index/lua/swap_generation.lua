-- Replace the keys that readers see with those that a rebuild made: every key of the board in one step.
-- KEYS[1] lease of the rebuild   KEYS[2] sentinel   KEYS[3] mark of a cold board
-- KEYS[4..] per key of the board: the built one, the live one
-- ARGV[1] generation (string)   ARGV[2..] per key of the board: its expiry (Unix ms, empty: never)
-- Returns the number of keys put in place, or -1 without any change if another builder has the lease or it
--   has expired.
-- Clock: none. Idempotent: a built key is there once; the sentinel is absent until `end_build.lua` sets it.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[2], KEYS[3])
local placed = 0
for at = 4, #KEYS, 2 do
  local built, live, expires = KEYS[at], KEYS[at + 1], ARGV[at / 2]
  -- Without UNLINK, RENAME would free the old key in this call, which takes long for a large board.
  redis.call('UNLINK', live)
  if redis.call('EXISTS', built) == 1 then
    redis.call('RENAME', built, live)
    redis.call('PERSIST', live)
    if expires ~= '' then
      redis.call('PEXPIREAT', live, expires)
    end
    placed = placed + 1
  end
end
return placed
