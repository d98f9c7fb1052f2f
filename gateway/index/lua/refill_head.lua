-- Puts the standings that come right after the head of a window into it, as they were read from the ledger.
-- include: _head
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] its groups zset   KEYS[4] version of the pages
-- ARGV[1] version of what is below, as it was before the ledger was read   ARGV[2] digits of tie fields (count)
-- ARGV[3] orders of one score (count)   ARGV[4] 1 if groups are kept, for dense ranks   ARGV[5] most entries that are kept (count)
-- ARGV[6..] per standing, in their order: player id, slot of one that is below, order (decimal), member, slot value
-- Returns how many were put into it, or -1 and nothing is done if anything changed below since. Stops when the
--   head is full, and at the first player whose slot is another: a change of theirs is on its way, or has come by.
-- Clock: Redis TIME, for the first version there is. Idempotent: what it does changes the version.

local _, version = below_in(KEYS[2])
if version ~= ARGV[1] then
  return -1
end
local digits, slots, keeps_groups = tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4] == '1'
local room = tonumber(ARGV[5]) - redis.call('ZCARD', KEYS[1])
local moved = 0
for at = 6, #ARGV, 5 do
  local player, below, order, member, slot = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3], ARGV[at + 4]
  if moved >= room or redis.call('HGET', KEYS[2], player) ~= below then
    break
  end
  redis.call('ZADD', KEYS[1], order, member)
  redis.call('HSET', KEYS[2], player, slot)
  if keeps_groups then
    join_group(KEYS[3], order, member, slots, digits)
  end
  moved = moved + 1
end
if moved > 0 then
  count_below(KEYS[2], -moved)
  redis.call('DEL', KEYS[4])
end
return moved
