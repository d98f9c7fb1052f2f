-- Read a page of a window by rank.
-- include: _entries
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] names hash   KEYS[4] its groups zset
-- KEYS[5] version of the pages
-- ARGV[1] kind of rank (unique, sparse, dense)   ARGV[2] orders per score (count)
-- ARGV[3] tie digits (count)
-- ARGV[4] first rank, from 0   ARGV[5] last rank, from 0
-- Returns {total, first rank from 0, rank of the first entry's group from 1, entries, version (false: none),
--   number of entries in the zset}; an entry is {player, order (decimal), member, submission id, display name}.
-- Clock: none. Read-only.

return under_version(ranked_entries(ARGV[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], tonumber(ARGV[4]),
  tonumber(ARGV[5]), tonumber(ARGV[2]), tonumber(ARGV[3])), KEYS[1], KEYS[5])
