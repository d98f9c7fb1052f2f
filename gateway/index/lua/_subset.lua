-- Entries of some of a window's players, with their rank in the whole window, shared by the scripts that include it.
-- include: _slots

-- From rank `from` to rank `to` among them, both from 0. An entry is {player, order value (decimal), member,
-- submission id, display name, rank in the window from 0 or -1 if it is not there}.
local function subset_entries(subset, whole, members, names, from, to)
  local found = redis.call('ZRANGE', subset, from, to, 'WITHSCORES')
  local rows = {}
  for at = 1, #found, 2 do
    local member = found[at]
    local player = player_in(member)
    rows[#rows + 1] = { player, found[at + 1], member, submission_in(redis.call('HGET', members, player)),
      redis.call('HGET', names, player) or '', redis.call('ZRANK', whole, member) or -1 }
  end
  return rows
end

-- {total, first rank from 0, entries} of the ranks from `from` to `to`; or, for a player, of as many neighbours as `to`
-- on each side, and false if the player is not among them.
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
