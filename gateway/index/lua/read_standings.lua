-- Read where one player stands in a window of each of some boards.
-- include: _entries
-- KEYS per board, from KEYS[1]: window zset, its members hash, its groups zset, the board's sentinel
-- ARGV[1] player id
-- ARGV[2..] per board: kind of rank (unique, sparse, dense), orders per score (count), tie digits (count)
-- Returns per board {total, rank, order (decimal), member, submission id}; empty without a standing, false for
--   a board that is not whole. On a cluster the boards are of one lane.
-- Clock: none. Read-only.

local player, answer = ARGV[1], {}
for board = 1, #KEYS / 4 do
  local first, argument = 4 * board - 4, 3 * board - 2
  local zset, members, groups = KEYS[first + 1], KEYS[first + 2], KEYS[first + 3]
  local standing = false
  if redis.call('EXISTS', KEYS[first + 4]) == 1 then
    local slot = redis.call('HGET', members, player)
    local member = member_in(slot, player)
    local rank = member ~= '' and redis.call('ZRANK', zset, member)
    standing = {}
    if rank then
      local order = redis.call('ZSCORE', zset, member)
      local own_rank = group_rank(ARGV[argument + 1], zset, groups, rank, order, member,
        tonumber(ARGV[argument + 2]), tonumber(ARGV[argument + 3]))
      standing = { total_of(zset, members), own_rank, order, member, submission_in(slot) }
    end
  end
  answer[board] = standing
end
return answer
