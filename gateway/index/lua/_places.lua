-- Places in a window and groups of tied entries, shared by the scripts that name this file in `include`. A
-- place is an order (ZSET score, whole) and a member. One score has `orders_per_score` orders: 1, or more
-- where the time is packed beside it. The first `tie_digits` characters of a member are its tie fields. Score
-- and tie fields name the group.
-- include: _slots

-- Return the score of an order, and the first order of that score. Both are exact: fmod is, and what it
-- leaves divides without a rest.
local function score_of(order, orders_per_score)
  local value = tonumber(order)
  local begin = value - math.fmod(value, orders_per_score)
  return string.format('%.0f', begin / orders_per_score), string.format('%.0f', begin)
end

local function group_of(order, member, orders_per_score, tie_digits)
  return score_of(order, orders_per_score) .. ' ' .. string.sub(member, 1, tie_digits)
end

-- Return the first rank (from 0) in a range of one score whose member's tie fields are `ties` or sort after
-- them. Hex digits sort by their bytes in every locale, so Lua's own comparison will do.
local function first_with(zset, low, high, ties)
  while low < high do
    local middle = math.floor((low + high) / 2)
    local member = redis.call('ZRANGE', zset, middle, middle)[1]
    if string.sub(member, 1, #ties) < ties then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Count the entries with a lower order than this one (a number).
local function count_lower(zset, order)
  return redis.call('ZCOUNT', zset, '-inf', '(' .. string.format('%.0f', order))
end

-- Compare by bytes, as Redis sorts members: Lua's own comparison follows the server's locale.
local function precedes(member, other)
  for at = 1, math.min(#member, #other) do
    local left, right = string.byte(member, at), string.byte(other, at)
    if left ~= right then
      return left < right
    end
  end
  return #member < #other
end

-- Count the entries ahead of a place, whether or not an entry stands there.
local function count_ahead(zset, order, member)
  local low = count_lower(zset, order)
  local high = redis.call('ZCOUNT', zset, '-inf', string.format('%.0f', order))
  while low < high do
    local middle = math.floor((low + high) / 2)
    if precedes(redis.call('ZRANGE', zset, middle, middle)[1], member) then
      low = middle + 1
    else
      high = middle
    end
  end
  return low
end

-- Return the rank (from 0) of the first entry that is tied with the one at `rank`.
local function first_of_group(zset, rank, order, member, orders_per_score, tie_digits)
  local _, begin = score_of(order, orders_per_score)
  local first = count_lower(zset, tonumber(begin))
  return tie_digits == 0 and first or first_with(zset, first, rank, string.sub(member, 1, tie_digits))
end

-- Return the rank of an entry's group, from 1, for this kind of rank.
local function group_rank(kind, zset, groups, rank, order, member, orders_per_score, tie_digits)
  if kind == 'dense' then
    return (redis.call('ZRANK', groups, group_of(order, member, orders_per_score, tie_digits)) or -1) + 1
  elseif kind == 'sparse' then
    return first_of_group(zset, rank, order, member, orders_per_score, tie_digits) + 1
  end
  return rank + 1
end
