-- Return the changes that nobody has announced yet, and note that the caller will announce them.
-- KEYS[1] changes stream of the lane   KEYS[2] id of the last claimed entry (string)
-- ARGV[1] most entries (count)
-- Returns entries, as XRANGE does; only the newest if the last claimed one is no longer in the stream.
-- Clock: none. Idempotent: no. Changes that the caller does not announce are lost.

local last = redis.call('GET', KEYS[2])
-- A forged text that is no id makes XRANGE fail; the error that pcall returns has no entries.
local entries = last and redis.pcall('XRANGE', KEYS[1], last, '+', 'COUNT', tonumber(ARGV[1]) + 1) or {}
if entries[1] and entries[1][1] == last then
  table.remove(entries, 1)
else
  entries = redis.call('XREVRANGE', KEYS[1], '+', '-', 'COUNT', 1)
end
if entries[1] then
  redis.call('SET', KEYS[2], entries[#entries][1])
end
return entries
