-- Return the boards with the lowest times of the sets of some lanes, which share a slot on a single server only.
-- KEYS per lane, from KEYS[1] on: the set
-- ARGV[1] latest time (Unix ms, or +inf)   ARGV[2] most boards of one lane (count)
-- Returns boards and times (ms, decimal), alternating: each lane's from the lowest time on, at most that many.
-- Clock: the caller's, in ARGV[1]. Read-only.

local found = {}
for at = 1, #KEYS do
  local zset = KEYS[at]
  local rows = redis.call('ZRANGE', zset, '-inf', ARGV[1], 'BYSCORE', 'LIMIT', 0, ARGV[2], 'WITHSCORES')
  for row = 1, #rows do
    found[#found + 1] = rows[row]
  end
end
return found
