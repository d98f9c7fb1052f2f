-- Return the last entry's id of some streams, which share a slot on a single server only.
-- KEYS per stream, from KEYS[1] on: the stream
-- Returns an id for each key, in their order; empty for a stream without entries.
-- Read-only.

local ends = {}
for at = 1, #KEYS do
  local stream = KEYS[at]
  local rows = redis.call('XREVRANGE', stream, '+', '-', 'COUNT', 1)
  ends[at] = rows[1] and rows[1][1] or ''
end
return ends
