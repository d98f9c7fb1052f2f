-- Return the last entry's id of some streams, which share a slot on a single server only.
-- KEYS per stream, from KEYS[1] on: the stream
-- ARGV[1] entries that are read of each (count, 1)
-- Returns an id for each key, in their order; empty for a stream without entries.
-- Clock: none. Read-only.

local ends = {}
for at = 1, #KEYS do
  local rows = redis.call('XREVRANGE', KEYS[at], '+', '-', 'COUNT', ARGV[1])
  ends[at] = rows[1] and rows[1][1] or ''
end
return ends
