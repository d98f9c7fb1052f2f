-- Places in a window and the groups of tied ones, shared by the scripts that name it in `include`.
-- A place is an order (ZSET score, whole) and a member. `slots` orders belong to one score (1, or more where the time is
-- packed beside it), and the first `digits` characters of a member are its tie fields: score and tie fields are the group.
-- include: _slots

-- The score of an order, and where its orders begin. Exact: fmod is, and so is the division of what it leaves.
local function score_of(order, slots)
  local value = tonumber(order)
  local begin = value - math.fmod(value, slots)
  return string.format('%.0f', begin / slots), string.format('%.0f', begin)
end

local function group_of(order, member, slots, digits)
  return score_of(order, slots) .. ' ' .. string.sub(member, 1, digits)
end

-- The first rank (from 0) between two at which a member's tie fields are `ties` or behind them; all have one score.
-- Hex digits sort by their bytes in every locale, so Lua's own comparison will do.
local function first_with(zset, from, upto, ties)
  while from < upto do
    local middle = math.floor((from + upto) / 2)
    local member = redis.call('ZRANGE', zset, middle, middle)[1]
    if string.sub(member, 1, #ties) < ties then
      from = middle + 1
    else
      upto = middle
    end
  end
  return from
end

-- How many entries have an order below this one.
local function count_below(zset, order)
  return redis.call('ZCOUNT', zset, '-inf', '(' .. string.format('%.0f', order))
end

-- The rank (from 0) of the first entry that is tied with the one at `rank`.
local function first_of_group(zset, rank, order, member, slots, digits)
  local _, begin = score_of(order, slots)
  local first = count_below(zset, tonumber(begin))
  return digits == 0 and first or first_with(zset, first, rank, string.sub(member, 1, digits))
end

-- What ranks of this kind begin from at an entry: the rank of its group, from 1.
local function group_rank(kind, zset, groups, rank, order, member, slots, digits)
  if kind == 'dense' then
    return (redis.call('ZRANK', groups, group_of(order, member, slots, digits)) or -1) + 1
  elseif kind == 'sparse' then
    return first_of_group(zset, rank, order, member, slots, digits) + 1
  end
  return rank + 1
end
