-- The groups of a window, each once, kept as entries come and go; shared by the scripts that name it in `include`.
-- include: _places

local function join_group(groups, order, member, slots, digits)
  redis.call('ZADD', groups, (score_of(order, slots)), group_of(order, member, slots, digits))
end

-- Called while the member is still there: tied entries stand beside each other, so its neighbours tell.
local function leave_group(zset, groups, order, member, slots, digits)
  local group = group_of(order, member, slots, digits)
  local rank = redis.call('ZRANK', zset, member)
  local near = rank and redis.call('ZRANGE', zset, math.max(0, rank - 1), rank + 1, 'WITHSCORES') or {}
  for at = 1, #near, 2 do
    if near[at] ~= member and group_of(near[at + 1], near[at], slots, digits) == group then
      return
    end
  end
  redis.call('ZREM', groups, group)
end
