-- Takes the members out of a window that is being built whose players are about to get others.
-- include: _groups
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] its groups zset
-- ARGV[1] orders of one score (count)   ARGV[2] digits of tie fields (count)   ARGV[3..] player ids
-- Returns how many were taken out.
-- Clock: none. Idempotent.

local slots, digits = tonumber(ARGV[1]), tonumber(ARGV[2])
local removed = 0
for at = 3, #ARGV do
  local member = member_in(redis.call('HGET', KEYS[2], ARGV[at]), ARGV[at])
  local order = member ~= '' and redis.call('ZSCORE', KEYS[1], member)
  if order then
    leave_group(KEYS[1], KEYS[3], order, member, slots, digits)
    removed = removed + redis.call('ZREM', KEYS[1], member)
  end
end
return removed
