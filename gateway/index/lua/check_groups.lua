-- Looks whether groups of a window are those of its entries and, if asked to, makes them so.
-- include: _places
-- KEYS[1] window zset   KEYS[2] its groups zset   KEYS[3] version of the pages
-- ARGV[1] orders of one score (count)   ARGV[2] 1 to mend   ARGV[3..] groups: `<score> <tie fields>`
-- Returns per group 1 if it is as it should be, 0 if not (or was not, and is mended).
-- Clock: none. Idempotent.

local slots = tonumber(ARGV[1])
local answer = {}

local function has_entry(score, ties)
  local begin = tonumber(score) * slots
  local from, upto = count_below(KEYS[1], begin), count_below(KEYS[1], begin + slots)
  local at = first_with(KEYS[1], from, upto, ties)
  local member = at < upto and redis.call('ZRANGE', KEYS[1], at, at)[1]
  return member and string.sub(member, 1, #ties) == ties
end

for at = 3, #ARGV do
  local group = ARGV[at]
  local score, ties = string.match(group, '^(%-?%d+) ([%x%-]*)$')
  local is_due = score and has_entry(score, ties)
  local held = redis.call('ZSCORE', KEYS[2], group)
  local is_right = is_due and held == score or not is_due and not held
  answer[#answer + 1] = is_right and 1 or 0
  if not is_right and ARGV[2] == '1' then
    redis.call('DEL', KEYS[3])
    if is_due then
      redis.call('ZADD', KEYS[2], score, group)
    else
      redis.call('ZREM', KEYS[2], group)
    end
  end
end
return answer
