-- Read the entries of some players in a window, each with its neighbours.
-- include: _entries
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] names hash   KEYS[4] its groups zset
-- KEYS[5] version of the pages
-- ARGV[1] kind of rank (unique, sparse, dense)   ARGV[2] orders per score (count)
-- ARGV[3] tie digits (count)
-- ARGV[4] neighbours on each side (count)   ARGV[5..] player ids
-- Returns per player what read_page.lua does, or false for one without a standing.
-- Clock: none. Read-only.

local orders_per_score, tie_digits, radius = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local answer = {}
for at = 5, #ARGV do
  local member = member_in(redis.call('HGET', KEYS[2], ARGV[at]), ARGV[at])
  local rank = member ~= '' and redis.call('ZRANK', KEYS[1], member)
  answer[#answer + 1] = rank and under_version(ranked_entries(ARGV[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4],
    math.max(0, rank - radius), rank + radius, orders_per_score, tie_digits), KEYS[1], KEYS[5]) or false
end
return answer
