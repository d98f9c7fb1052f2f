-- The head of a window, where a board keeps no more: a beginning of the order of all standings, so that every rank in it
-- is exact. Shared by the scripts that name it in `include`.
-- include: _groups

-- Counts standings that went below the head (1) or left from there (-1), under a version that never comes again.
local function count_below(members, by)
  local count, version = below_in(members)
  if not version then
    local now = redis.call('TIME')
    version = now[1] * 1000000 + now[2]
  end
  redis.call('HSET', members, '*', string.format('%.0f %.0f', tonumber(version) + 1, count + by))
end

-- Takes the last entry out of the head; its slot goes on keeping the sequence number.
local function push_last(zset, members, groups, slots, digits, keeps_groups)
  local last = redis.call('ZRANGE', zset, -1, -1, 'WITHSCORES')
  local player = player_in(last[1])
  if keeps_groups then
    leave_group(zset, groups, last[2], last[1], slots, digits)
  end
  redis.call('ZREM', zset, last[1])
  local seq = string.match(redis.call('HGET', members, player) or '', '^%d+')
  if seq then
    redis.call('HSET', members, player, table.concat({ seq, '-' }, ' '))
    count_below(members, 1)
  end
end

local pushed_at_once = 64 -- more are pushed by whoever comes next, so that no call takes long

-- Puts what is too much below. An entry that came to be the last one may be behind others that are below, so it goes too.
local function keep_head(zset, members, groups, most, member, slots, digits, keeps_groups)
  local size = redis.call('ZCARD', zset)
  if below_in(members) > 0 and redis.call('ZRANK', zset, member) == size - 1 then
    push_last(zset, members, groups, slots, digits, keeps_groups)
    size = size - 1
  end
  for _ = 1, math.min(size - most, pushed_at_once) do
    push_last(zset, members, groups, slots, digits, keeps_groups)
  end
end
