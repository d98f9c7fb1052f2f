-- Puts what a rebuild has made in the place of what readers see: every key of the board in one step.
-- KEYS[1] lease of the rebuild   KEYS[2] sentinel   KEYS[3] mark that the board is cold
-- KEYS[4..] per key of the board: the built one, the live one
-- ARGV[1] generation (string)   ARGV[2..] per key of the board: its expiry (Unix ms, empty: never)
-- Returns how many keys were put in place, or -1 and nothing is done if the lease is another's or has ended.
-- Clock: none. Idempotent: a built key is there once; the sentinel is gone until `end_build.lua` sets it.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return -1
end
redis.call('DEL', KEYS[2], KEYS[3])
local placed = 0
for at = 4, #KEYS, 2 do
  local built, live, expires = KEYS[at], KEYS[at + 1], ARGV[at / 2]
  -- Without UNLINK a RENAME would free the old key at once, which takes long for a large board.
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
