-- Entries of some of a window's players, with their rank in the whole window; shared by the scripts that name
-- this file in `include`.
-- include: _slots

-- Return the entries between two ranks among those players, from 0. An entry is {player, order (decimal),
-- member, submission id, display name, rank in the window from 0, or -1 if it is not there}.
local function subset_entries(subset, whole, members, names, from, to)
  local placed = redis.call('ZRANGE', subset, from, to, 'WITHSCORES')
  local rows = {}
  for at = 1, #placed, 2 do
    local member = placed[at]
    local player = player_in(member)
    rows[#rows + 1] = { player, placed[at + 1], member, submission_in(redis.call('HGET', members, player)),
      redis.call('HGET', names, player) or '', redis.call('ZRANK', whole, member) or -1 }
  end
  return rows
end

-- Return {total, first rank from 0, entries} for the ranks `from` to `to`. With a player, return `to`
-- neighbours on each side of that player instead, or false if the player is not among them.
local function subset_page(subset, whole, members, names, player, from, to)
  if player ~= '' then
    local rank = redis.call('ZRANK', subset, member_in(redis.call('HGET', members, player), player))
    if not rank then
      return false
    end
    from, to = math.max(0, rank - to), rank + to
  end
  return { redis.call('ZCARD', subset), from, subset_entries(subset, whole, members, names, from, to) }
end
