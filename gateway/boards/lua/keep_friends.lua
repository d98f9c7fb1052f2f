-- Keeps a copy of whom a player follows, unless a newer one is there.
-- KEYS[1] the player's friends
-- ARGV[1] version (whole number)   ARGV[2] what is kept: the version and the player ids   ARGV[3] how long it is kept (ms)
-- Returns 1 if it is kept, 0 if a newer one, or the same, is there.
-- Clock: none but what keys expire by. Idempotent: only a higher version replaces another.

local held = redis.call('GET', KEYS[1])
if held and tonumber(string.match(held, '^%d+')) >= tonumber(ARGV[1]) then
  return 0
end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
