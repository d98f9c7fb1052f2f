-- Set how many standings are below the head of a window, unless it changed since it was read.
-- include: _head
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] version of the pages
-- ARGV[1] entries of the head when it was read   ARGV[2] version of what was below it then (empty: none)
-- ARGV[3] standings below (count)
-- Returns 1 if the count is set, 0 if something changed.
-- Clock: Redis TIME, for the first version of a window. Idempotent.

local count, version = below_in(KEYS[2])
if redis.call('ZCARD', KEYS[1]) ~= tonumber(ARGV[1]) or (version or '') ~= ARGV[2] then
  return 0
end
add_below(KEYS[2], tonumber(ARGV[3]) - count)
redis.call('DEL', KEYS[3])
return 1
