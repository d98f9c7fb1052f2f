-- Takes entries out of a window that has more than its head.
-- include: _head
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] its groups zset   KEYS[4] version of the pages
-- ARGV[1] most entries that are kept (count)   ARGV[2] most that are taken out now (count)
-- ARGV[3] digits of tie fields (count)   ARGV[4] orders of one score (count)   ARGV[5] 1 if groups are kept, for dense ranks
-- Returns how many were taken out.
-- Clock: Redis TIME, for the first version there is. Idempotent.

local excess = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[1])
local taken = math.max(0, math.min(excess, tonumber(ARGV[2])))
for _ = 1, taken do
  push_last(KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[4]), tonumber(ARGV[3]), ARGV[5] == '1')
end
if taken > 0 then
  redis.call('DEL', KEYS[4])
end
return taken
