-- Count the entries of a window, or of a group in it, ahead of each of some places, whether or not an entry stands there.
-- include: _places
-- KEYS[1] zset of the window or group
-- ARGV per place: order (decimal), member (bytes)
-- Returns a count per place.
-- Clock: none. Read-only.

local counts = {}
for at = 1, #ARGV, 2 do
  counts[#counts + 1] = count_ahead(KEYS[1], tonumber(ARGV[at]), ARGV[at + 1])
end
return counts
