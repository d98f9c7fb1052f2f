-- Read where each of some players stands in a window.
-- include: _slots
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] names hash
-- ARGV per player: player id
-- Returns per player with a standing {player, order (decimal), member, submission id, display name, rank from
--   0}.
-- Clock: none. Read-only.

local rows = {}
for at = 1, #ARGV do
  local player = ARGV[at]
  local slot = redis.call('HGET', KEYS[2], player)
  local member = member_in(slot, player)
  local rank = member ~= '' and redis.call('ZRANK', KEYS[1], member)
  if rank then
    rows[#rows + 1] = { player, redis.call('ZSCORE', KEYS[1], member), member, submission_in(slot),
      redis.call('HGET', KEYS[3], player) or '', rank }
  end
end
return rows
