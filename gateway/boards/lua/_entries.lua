-- Entries between two ranks of a window, shared by the scripts that name it in `include`.
-- A member is 22 hex digits, a colon, and the player id.

local function entries(zset, members, names, from, to)
  local found = redis.call('ZRANGE', zset, from, to, 'WITHSCORES')
  local rows = {}
  for at = 1, #found, 2 do
    local player = string.sub(found[at], 24)
    local slot = redis.call('HGET', members, player) or ''
    rows[#rows + 1] = { player, found[at + 1], found[at], string.match(slot, '(%S*)$') or '',
      redis.call('HGET', names, player) or '' }
  end
  return rows
end
