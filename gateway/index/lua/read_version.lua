-- Return the name of a board's current pages, how they came from earlier ones, and the entries of some windows.
-- KEYS[1] version of the pages   KEYS[2] moves of the pages   KEYS[3..] window zsets
-- ARGV[1] name to give it if it has none (string, never used before)
-- ARGV[2] an earlier version (string, empty: none)
-- Returns {version, the versions since ARGV[2] and the moves to each, number of entries of each window}; instead
--   of the second false if there are none or they are not known. The newest version and the moves to it come first.
--   Pages are the same while version and number are: `project_change.lua` names another version, any other
--   script that changes an entry deletes it in the same step, and an expired or wiped window shows in its count.
-- Clock: none. Idempotent.

redis.call('SET', KEYS[1], ARGV[1], 'NX')
local version = redis.call('GET', KEYS[1])
local steps = false
if ARGV[2] ~= '' and ARGV[2] ~= version and redis.call('LINDEX', KEYS[2], 0) == version then
  local at = redis.call('LPOS', KEYS[2], ARGV[2])
  steps = at and redis.call('LRANGE', KEYS[2], 0, at - 1)
end
local answer = { version, steps }
for at = 3, #KEYS do
  answer[at] = redis.call('ZCARD', KEYS[at])
end
return answer
