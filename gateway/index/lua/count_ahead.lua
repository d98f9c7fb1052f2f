-- How many entries of a window are ahead of each place, whoever is there.
-- KEYS[1] window zset
-- ARGV per place: order (decimal), the same as an open bound (`(` and decimal), member (bytes)
-- Returns a count per place.
-- Clock: none. Read-only.

-- Bytes, as Redis sorts members; Lua's own comparison goes by the server's locale.
local function is_below(one, other)
  for at = 1, math.min(#one, #other) do
    local left, right = string.byte(one, at), string.byte(other, at)
    if left ~= right then
      return left < right
    end
  end
  return #one < #other
end

local counts = {}
for at = 1, #ARGV, 3 do
  local order, below, member = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  local low, high = redis.call('ZCOUNT', KEYS[1], '-inf', below), redis.call('ZCOUNT', KEYS[1], '-inf', order)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if is_below(redis.call('ZRANGE', KEYS[1], middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  counts[#counts + 1] = low
end
return counts
