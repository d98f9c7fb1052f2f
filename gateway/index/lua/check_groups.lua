-- Check whether groups of a window match its entries and, on request, correct them.
-- include: _places
-- KEYS[1] window zset   KEYS[2] its groups zset   KEYS[3] version of the pages
-- ARGV[1] orders per score (count)   ARGV[2] 1 to correct   ARGV[3..] groups: `<score> <tie fields>`
-- Returns per group 1 if it was right, 0 if it was wrong (and is now corrected, if requested).
-- Clock: none. Idempotent.

local orders_per_score = tonumber(ARGV[1])
local answer = {}

local function has_entry(score, ties)
  local begin = tonumber(score) * orders_per_score
  local first, behind = count_lower(KEYS[1], begin), count_lower(KEYS[1], begin + orders_per_score)
  local at = first_with(KEYS[1], first, behind, ties)
  local member = at < behind and redis.call('ZRANGE', KEYS[1], at, at)[1]
  return member and string.sub(member, 1, #ties) == ties
end

for at = 3, #ARGV do
  local group = ARGV[at]
  local score, ties = string.match(group, '^(%-?%d+) ([%x%-]*)$')
  local is_expected = score and has_entry(score, ties)
  local stored = redis.call('ZSCORE', KEYS[2], group)
  local is_right = is_expected and stored == score or not is_expected and not stored
  answer[#answer + 1] = is_right and 1 or 0
  if not is_right and ARGV[2] == '1' then
    redis.call('DEL', KEYS[3])
    if is_expected then
      redis.call('ZADD', KEYS[2], score, group)
    else
      redis.call('ZREM', KEYS[2], group)
    end
  end
end
return answer
