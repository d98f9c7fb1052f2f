-- Read a page of some of a window's players, or the neighbours of one of them.
-- include: _subset
-- KEYS[1] zset of those players   KEYS[2] window zset   KEYS[3] its members hash   KEYS[4] names hash
-- ARGV[1] player id whose neighbours to read, empty for a page
-- ARGV[2] first rank among them, from 0 (of a page)
-- ARGV[3] last rank from 0, or neighbours on each side (count)
-- Returns {total, first rank from 0, entries}, or false for a player who is not among them; entries as in
--   _subset.lua.
-- Clock: none. Read-only.

return subset_page(KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
