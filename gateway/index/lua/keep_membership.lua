-- Store which groups a player is in, unless a newer membership is there.
-- KEYS[1] memberships hash
-- ARGV[1] player id (string)   ARGV[2] version (whole number)   ARGV[3] the membership: version and groups
-- Returns 1 if it is stored, 0 if the same version or a newer one is there.
-- Clock: none. Idempotent: only a higher version replaces another.

local stored = redis.call('HGET', KEYS[1], ARGV[1])
if stored and tonumber(string.match(stored, '^%d+')) >= tonumber(ARGV[2]) then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
return 1
