-- Remove surplus entries from a window that has more than its head.
-- include: _head
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] its groups zset   KEYS[4] version of the pages
-- ARGV[1] most entries of a head (count)   ARGV[2] most to remove now (count)   ARGV[3] tie digits (count)
-- ARGV[4] orders per score (count)   ARGV[5] 1 if groups are kept, for dense ranks
-- Returns the number removed.
-- Clock: Redis TIME, for the first version of a window. Idempotent.

local excess = redis.call('ZCARD', KEYS[1]) - tonumber(ARGV[1])
local surplus = math.max(0, math.min(excess, tonumber(ARGV[2])))
for _ = 1, surplus do
  push_last(KEYS[1], KEYS[2], KEYS[3], tonumber(ARGV[4]), tonumber(ARGV[3]), ARGV[5] == '1')
end
if surplus > 0 then
  redis.call('DEL', KEYS[4])
end
return surplus
