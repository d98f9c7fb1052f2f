-- Make the groups of one player match the player's slots and membership in some windows, all in one step.
-- include: _slots
-- KEYS[1] memberships hash
-- KEYS[2..] per window: its zset, its members hash, its segmented hash, then the zset of each group the
--   player may be in
-- ARGV[1] player id   ARGV[2] membership as it was read (string, empty: none)
-- ARGV[3..] per window: segmented value as it was read (string, empty: none), the groups of the membership as
--   they stand in a segmented value (string), groups (count), then for each group 1 if the player is in it, 0
--   if not
-- Returns 1, or 0 without any change if the membership or a segmented value differs from what was read.
-- Clock: none. Idempotent: what it writes follows from the slots and the membership, in any order and any
--   number of times.

local player = ARGV[1]
if (redis.call('HGET', KEYS[1], player) or '') ~= ARGV[2] then
  return 0
end

-- Note where each window begins in KEYS and ARGV, and check first that nothing changed: a partial update must
-- not stay.
local windows = {}
local key_at, at = 2, 3
while at <= #ARGV do
  if (redis.call('HGET', KEYS[key_at + 2], player) or '') ~= ARGV[at] then
    return 0
  end
  windows[#windows + 1] = { key_at, at }
  key_at, at = key_at + 3 + tonumber(ARGV[at + 2]), at + 3 + tonumber(ARGV[at + 2])
end

for _, window in ipairs(windows) do
  local first_key, first = window[1], window[2]
  local zset, members = KEYS[first_key], KEYS[first_key + 1]
  local old_member = string.match(ARGV[first], '^(%S*)')
  local member = member_in(redis.call('HGET', members, player), player)
  local order = member ~= '' and redis.call('ZSCORE', zset, member)
  local expires = redis.call('PEXPIRETIME', members)
  for group = 1, tonumber(ARGV[first + 2]) do
    local key = KEYS[first_key + 2 + group]
    if old_member ~= '' then
      redis.call('ZREM', key, old_member)
    end
    if order and ARGV[first + 2 + group] == '1' then
      redis.call('ZADD', key, order, member)
      if expires > 0 then
        redis.call('PEXPIREAT', key, expires)
      end
    end
  end
  if order and ARGV[first + 1] ~= '' then
    redis.call('HSET', KEYS[first_key + 2], player, table.concat({ member, ARGV[first + 1] }, ' '))
    if expires > 0 then
      redis.call('PEXPIREAT', KEYS[first_key + 2], expires)
    end
  else
    redis.call('HDEL', KEYS[first_key + 2], player)
  end
end
return 1
