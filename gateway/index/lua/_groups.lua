-- The distinct groups of a window, updated as entries come and go; shared by the scripts that name this file
-- in `include`.
-- include: _places

local function join_group(groups, order, member, orders_per_score, tie_digits)
  local score = score_of(order, orders_per_score)
  redis.call('ZADD', groups, score, group_of(order, member, orders_per_score, tie_digits))
end

-- Remove the member's group unless another entry is in it. Call this while the member is still in the window:
-- tied entries are neighbours, so its two neighbours tell.
local function leave_group(zset, groups, order, member, orders_per_score, tie_digits)
  local group = group_of(order, member, orders_per_score, tie_digits)
  local rank = redis.call('ZRANK', zset, member)
  local near = rank and redis.call('ZRANGE', zset, math.max(0, rank - 1), rank + 1, 'WITHSCORES') or {}
  for at = 1, #near, 2 do
    if near[at] ~= member and group_of(near[at + 1], near[at], orders_per_score, tie_digits) == group then
      return
    end
  end
  redis.call('ZREM', groups, group)
end
