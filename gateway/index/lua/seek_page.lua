-- Read a page of a window that begins or ends at a place, whether or not an entry still stands there.
-- include: _entries
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] names hash   KEYS[4] its groups zset
-- KEYS[5] version of the pages
-- ARGV[1] kind of rank (unique, sparse, dense)   ARGV[2] orders per score (count)
-- ARGV[3] tie digits (count)
-- ARGV[4] order (decimal)   ARGV[5] member   ARGV[6] most entries (count)
-- ARGV[7] 1 for the entries behind the place, 0 for those ahead   ARGV[8] 1 to include the entry at the place
-- Returns as read_page.lua does.
-- Clock: none. Read-only.

local order, member, count = tonumber(ARGV[4]), ARGV[5], tonumber(ARGV[6])
local is_behind, is_included = ARGV[7] == '1', ARGV[8] == '1'
local ahead = count_ahead(KEYS[1], order, member)
local is_there = tonumber(redis.call('ZSCORE', KEYS[1], member) or 'nan') == order
local cut = (is_there and is_behind ~= is_included) and ahead + 1 or ahead
local from = is_behind and cut or math.max(0, cut - count)
local to = is_behind and cut + count or cut
if from >= to then
  return under_version({ total_of(KEYS[1], KEYS[2]), from, 0, {} }, KEYS[1], KEYS[5])
end
return under_version(ranked_entries(ARGV[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], from, to - 1,
  tonumber(ARGV[2]), tonumber(ARGV[3])), KEYS[1], KEYS[5])
