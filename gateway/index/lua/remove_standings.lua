-- Remove the members of some players from a window under construction, before they are written again.
-- include: _groups
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] its groups zset
-- ARGV[1] orders per score (count)   ARGV[2] tie digits (count)   ARGV[3..] player ids
-- Returns the number removed.
-- Clock: none. Idempotent.

local orders_per_score, tie_digits = tonumber(ARGV[1]), tonumber(ARGV[2])
local removed = 0
for at = 3, #ARGV do
  local member = member_in(redis.call('HGET', KEYS[2], ARGV[at]), ARGV[at])
  local order = member ~= '' and redis.call('ZSCORE', KEYS[1], member)
  if order then
    leave_group(KEYS[1], KEYS[3], order, member, orders_per_score, tie_digits)
    removed = removed + redis.call('ZREM', KEYS[1], member)
  end
end
return removed
