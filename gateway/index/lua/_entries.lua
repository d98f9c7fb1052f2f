-- Entries between two ranks of a window, shared by the scripts that name this file in `include`.
-- include: _places

local function entries(zset, members, names, from, to)
  local placed = redis.call('ZRANGE', zset, from, to, 'WITHSCORES')
  if #placed == 0 then
    return {}
  end
  local players = {}
  for at = 1, #placed, 2 do
    players[#players + 1] = player_in(placed[at])
  end
  local slots = redis.call('HMGET', members, unpack(players))
  local display_names = redis.call('HMGET', names, unpack(players))
  local rows = {}
  for at, player in ipairs(players) do
    local member, order = placed[2 * at - 1], placed[2 * at]
    rows[at] = { player, order, member, submission_in(slots[at]), display_names[at] or '' }
  end
  return rows
end

-- Count all standings, including those below the ranks that the board keeps.
local function total_of(zset, members)
  local below = below_in(members)
  return redis.call('ZCARD', zset) + below
end

-- Return an answer with the version that it is a page of: its name, false if it has none, and the number of
-- entries that is part of it.
local function under_version(answer, zset, version)
  answer[5], answer[6] = redis.call('GET', version), redis.call('ZCARD', zset)
  return answer
end

-- Return {total, first rank, rank of the first entry's group, rows of `entries`}.
local function ranked_entries(kind, zset, members, names, groups, from, to, orders_per_score, tie_digits)
  local rows = entries(zset, members, names, from, to)
  if #rows == 0 then
    return { total_of(zset, members), from, 0, rows }
  end
  local lead = group_rank(kind, zset, groups, from, rows[1][2], rows[1][3], orders_per_score, tie_digits)
  return { total_of(zset, members), from, lead, rows }
end
