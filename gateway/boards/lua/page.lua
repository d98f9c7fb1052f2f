-- A page of a window by rank.
-- include: _entries
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] names hash
-- ARGV[1] first rank, from 0   ARGV[2] last rank, from 0
-- Returns {total, entries}; an entry is {player, order value (decimal), member, submission id, display name}.
-- Clock: none. Read-only.

return { redis.call('ZCARD', KEYS[1]), entries(KEYS[1], KEYS[2], KEYS[3], ARGV[1], ARGV[2]) }
