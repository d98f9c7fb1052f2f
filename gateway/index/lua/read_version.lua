-- Names what the pages of a board show now, and says how many entries some of its windows have.
-- KEYS[1] version of the pages   KEYS[2..] window zsets
-- ARGV[1] name to give it if it has none (string, never used before)
-- Returns {version, number of entries of each window}. Pages are the same while both are: what changes an entry deletes
--   the version in the same step, and a window that expires or is wiped is seen by its number.
-- Clock: none. Idempotent.

redis.call('SET', KEYS[1], ARGV[1], 'NX')
local answer = { redis.call('GET', KEYS[1]) }
for at = 2, #KEYS do
  answer[at] = redis.call('ZCARD', KEYS[at])
end
return answer
