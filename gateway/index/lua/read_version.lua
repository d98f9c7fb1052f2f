-- Return the name of a board's current pages, and count the entries of some windows.
-- KEYS[1] version of the pages   KEYS[2..] window zsets
-- ARGV[1] name to give it if it has none (string, never used before)
-- Returns {version, number of entries of each window}. Pages are the same while both are: a script that
--   changes an entry deletes the version in the same step, and an expired or wiped window shows in its count.
-- Clock: none. Idempotent.

redis.call('SET', KEYS[1], ARGV[1], 'NX')
local answer = { redis.call('GET', KEYS[1]) }
for at = 2, #KEYS do
  answer[at] = redis.call('ZCARD', KEYS[at])
end
return answer
