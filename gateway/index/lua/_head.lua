-- The head of a window, for boards with `exact_ranks`: the first entries in the order of all standings, so
-- every rank in it is exact. Shared by the scripts that name this file in `include`.
-- include: _groups

-- Change the number of standings below the head, and give it a version that never comes again.
local function add_below(members, change)
  local count, version = below_in(members)
  if not version then
    local now = redis.call('TIME')
    version = now[1] * 1000000 + now[2]
  end
  redis.call('HSET', members, '*', string.format('%.0f %.0f', tonumber(version) + 1, count + change))
end

-- Move the last entry below the head; its slot keeps the sequence number.
local function push_last(zset, members, groups, orders_per_score, tie_digits, keeps_groups)
  local last = redis.call('ZRANGE', zset, -1, -1, 'WITHSCORES')
  local player = player_in(last[1])
  if keeps_groups then
    leave_group(zset, groups, last[2], last[1], orders_per_score, tie_digits)
  end
  redis.call('ZREM', zset, last[1])
  local seq = string.match(redis.call('HGET', members, player) or '', '^%d+')
  if seq then
    redis.call('HSET', members, player, table.concat({ seq, '-' }, ' '))
    add_below(members, 1)
  end
end

local pushed_at_once = 64 -- later calls push the rest, so that no call takes long

-- Move surplus entries below the head. An entry that became the last one goes too while there are standings
-- below: any of those may be ahead of it.
local function keep_head(
  zset, members, groups, most_entries, member, orders_per_score, tie_digits, keeps_groups
)
  local size = redis.call('ZCARD', zset)
  if below_in(members) > 0 and redis.call('ZRANK', zset, member) == size - 1 then
    push_last(zset, members, groups, orders_per_score, tie_digits, keeps_groups)
    size = size - 1
  end
  for _ = 1, math.min(size - most_entries, pushed_at_once) do
    push_last(zset, members, groups, orders_per_score, tie_digits, keeps_groups)
  end
end
