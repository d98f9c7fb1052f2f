-- Keeps which groups a player is in, unless a newer membership is there.
-- KEYS[1] memberships hash
-- ARGV[1] player id (string)   ARGV[2] version (whole number)   ARGV[3] what is kept: the version and the groups
-- Returns 1 if it is kept, 0 if a newer one, or the same, is there.
-- Clock: none. Idempotent: only a higher version replaces another.

local held = redis.call('HGET', KEYS[1], ARGV[1])
if held and tonumber(string.match(held, '^%d+')) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
