-- Entries between two ranks of a window, shared by the scripts that name it in `include`.
-- include: _places

local function entries(zset, members, names, from, to)
  local found = redis.call('ZRANGE', zset, from, to, 'WITHSCORES')
  if #found == 0 then
    return {}
  end
  local players = {}
  for at = 1, #found, 2 do
    players[#players + 1] = player_in(found[at])
  end
  local slots = redis.call('HMGET', members, unpack(players))
  local shown = redis.call('HMGET', names, unpack(players))
  local rows = {}
  for at, player in ipairs(players) do
    rows[at] = { player, found[2 * at], found[2 * at - 1], submission_in(slots[at]), shown[at] or '' }
  end
  return rows
end

-- How many standings there are, with those that are below the ranks that the board keeps.
local function total_of(zset, members)
  local below = below_in(members)
  return redis.call('ZCARD', zset) + below
end

-- The rows of `entries` with the rank of the first one's group.
local function ranked_entries(kind, zset, members, names, groups, from, to, slots, digits)
  local rows = entries(zset, members, names, from, to)
  if #rows == 0 then
    return { total_of(zset, members), from, 0, rows }
  end
  local lead = group_rank(kind, zset, groups, from, rows[1][2], rows[1][3], slots, digits)
  return { total_of(zset, members), from, lead, rows }
end
