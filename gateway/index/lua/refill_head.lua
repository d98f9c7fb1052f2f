-- Add the standings that come right after the head of a window to it, as read from the ledger.
-- include: _head
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] its groups zset   KEYS[4] version of the pages
-- ARGV[1] version of what is below, as it was before the ledger was read   ARGV[2] tie digits (count)
-- ARGV[3] orders per score (count)   ARGV[4] 1 if groups are kept, for dense ranks
-- ARGV[5] most entries (count)
-- ARGV[6..] per standing, in order: player id, slot of a standing below, order (decimal), member, slot value
-- Returns the number added, or -1 without any change if anything changed below since. Stops when the head is
--   full, and at the first player whose slot differs: that player's change is on its way, or has been shown.
-- Clock: Redis TIME, for the first version of a window. Idempotent: every addition changes the version.

local _, version = below_in(KEYS[2])
if version ~= ARGV[1] then
  return -1
end
local tie_digits, orders_per_score, keeps_groups = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local room = tonumber(ARGV[5]) - redis.call('ZCARD', KEYS[1])
local moved = 0
for at = 6, #ARGV, 5 do
  local player, slot_below = ARGV[at], ARGV[at + 1]
  local order, member, slot = ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  if moved >= room or redis.call('HGET', KEYS[2], player) ~= slot_below then
    break
  end
  redis.call('ZADD', KEYS[1], order, member)
  redis.call('HSET', KEYS[2], player, slot)
  if keeps_groups then
    join_group(KEYS[3], order, member, orders_per_score, tie_digits)
  end
  moved = moved + 1
end
if moved > 0 then
  add_below(KEYS[2], -moved)
  redis.call('DEL', KEYS[4])
end
return moved
