-- Gives the changes that nobody has announced yet, and notes that the caller will.
-- KEYS[1] changes stream   KEYS[2] id of the last entry that was given (string)
-- ARGV[1] most entries (count)
-- Returns {entries}, as XRANGE gives them; the newest alone if the last one given is not there any more.
-- Clock: none. Idempotent: no. What its caller does not announce is announced by nobody.

local last = redis.call('GET', KEYS[2])
-- An id that is none, as nobody of ours writes it, is an error, which has no entries.
local found = last and redis.pcall('XRANGE', KEYS[1], last, '+', 'COUNT', tonumber(ARGV[1]) + 1) or {}
if found[1] and found[1][1] == last then
  table.remove(found, 1)
else
  found = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
end
if found[1] then
  redis.call('SET', KEYS[2], found[#found][1])
end
return found
