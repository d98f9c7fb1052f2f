-- Show one settled change in a board's index: all windows, both baselines and the pending set, in one step.
-- include: _head
-- include: _moves
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3] names hash   KEYS[4] baselines hash
-- KEYS[5] changes stream of the lane
-- KEYS[6] version of the pages   KEYS[7] mark of a cold board   KEYS[8] sentinel of the board
-- KEYS[9] residents of the lane   KEYS[10] its wanted boards   KEYS[11] its tails
-- KEYS[12] moves of the pages
-- KEYS[13..] per window: its zset, its members hash, its groups zset
-- ARGV[1] submission id (string)   ARGV[2] player id   ARGV[3] display name, may be empty
-- ARGV[4] baselines (count)
-- ARGV[5] tie digits (count)   ARGV[6] 1 if groups are kept, for dense ranks
-- ARGV[7] 1 if ranks are told only while the board is whole
-- ARGV[8] board or shard   ARGV[9] 1 for a board, 0 for a shard, which is no resident of its own
-- ARGV[10] most entries of the stream (count)
-- ARGV[11..] per baseline: field, seq, value; then per window: name, seq, order (decimal, empty: nothing
--   counts), member, submission id, slot value, expiry (Unix ms, empty: never), orders per score (count),
--   most entries (count, empty: all)
-- Returns the number of windows that changed. No window of a cold board is touched. The stream tells no ranks
--   of a board that is cold or not whole: counted in a part of a board, they would be wrong.
-- Clock: Redis TIME, for the settled set, and to skip windows that have expired. Idempotent: each slot and
--   baseline holds the ledger's sequence number, and only a higher one is applied, so changes may come twice
--   and in any order.

local id, player, name = ARGV[1], ARGV[2], ARGV[3]
local tie_digits, keeps_groups = tonumber(ARGV[5]), ARGV[6] == '1'
local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local hour_ms = 3600000

if id ~= '' then
  redis.call('ZREM', KEYS[1], id)
  redis.call('ZADD', KEYS[2], now_ms, id)
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms - hour_ms)
end

local function is_newer(stored, seq)
  return not stored or tonumber(string.match(stored, '^%d+')) < tonumber(seq)
end

local board, most_changes = ARGV[8], ARGV[10]

local at = 11
for _ = 1, tonumber(ARGV[4]) do
  local field, seq, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if is_newer(redis.call('HGET', KEYS[4], field), seq) then
    redis.call('HSET', KEYS[4], field, value)
  end
  at = at + 3
end

local changed = 0
local window_key, moves, has_head = 13, {}, false
local is_cold = redis.call('EXISTS', KEYS[7]) == 1
local tells_ranks = ARGV[7] ~= '1' or redis.call('EXISTS', KEYS[8]) == 1
if ARGV[9] == '1' then
  redis.call('ZADD', KEYS[9], 'NX', now_ms, board)
  if redis.call('EXISTS', KEYS[8]) == 0 then
    redis.call('ZADD', KEYS[10], 'NX', now_ms, board)
  end
end
while at <= #ARGV do
  local window, seq, order, member = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local submission, slot, expires = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  local orders_per_score, most_entries = tonumber(ARGV[at + 7]), tonumber(ARGV[at + 8])
  local zset, members, groups = KEYS[window_key], KEYS[window_key + 1], KEYS[window_key + 2]
  -- The windows of a cold board are only in the ledger: a part of one in Redis would pass for all of it.
  local slot_of = table.concat({ window, player }, ' ')
  local stored
  if is_cold then
    stored = redis.call('HGET', KEYS[7], slot_of)
  else
    stored = redis.call('HGET', members, player)
  end
  local is_over = expires ~= '' and tonumber(expires) <= now_ms
  if is_newer(stored, seq) and not is_over and is_cold then
    redis.call('HSET', KEYS[7], slot_of, seq)
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', most_changes, '*', 'board', board, 'seq', seq, 'window', window,
      'player', player, 'name', name, 'submission', submission, 'order', order, 'member', member, 'rank', 0,
      'was_order', '', 'was_member', '', 'was_rank', 0)
    changed = changed + 1
  elseif is_newer(stored, seq) and not is_over then
    local old_member = member_in(stored, player)
    local was_order, was_rank = '', 0
    if old_member ~= '' then
      was_order = redis.call('ZSCORE', zset, old_member) or ''
      was_rank = (redis.call('ZRANK', zset, old_member) or -1) + 1
      if keeps_groups and was_order ~= '' then
        leave_group(zset, groups, was_order, old_member, orders_per_score, tie_digits)
      end
      redis.call('ZREM', zset, old_member)
    end
    if is_below(stored) then
      add_below(members, -1)
    end
    has_head = has_head or most_entries
    if most_entries and ARGV[9] == '1' then
      redis.call('ZADD', KEYS[11], 'LT', now_ms, board)
    end
    redis.call('HSET', members, player, slot)
    moves[#moves + 1] = move_of(window, player, name, redis.call('HGET', KEYS[3], player), was_order, old_member,
      order, member)
    local rank = 0
    if order ~= '' then
      redis.call('ZADD', zset, order, member)
      if keeps_groups then
        join_group(groups, order, member, orders_per_score, tie_digits)
      end
      if most_entries then
        keep_head(zset, members, groups, most_entries, member, orders_per_score, tie_digits, keeps_groups)
      end
      rank = (redis.call('ZRANK', zset, member) or -1) + 1
    end
    if not tells_ranks then
      rank, was_rank = 0, 0
    end
    if name ~= '' then
      redis.call('HSET', KEYS[3], player, name)
    end
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', most_changes, '*', 'board', board, 'seq', seq, 'window', window,
      'player', player, 'name', name, 'submission', submission, 'order', order, 'member', member, 'rank', rank,
      'was_order', was_order, 'was_member', old_member, 'was_rank', was_rank)
    if expires ~= '' then
      for key = window_key, window_key + 2 do
        redis.call('PEXPIREAT', KEYS[key], expires)
      end
    end
    changed = changed + 1
  end
  at = at + 9
  window_key = window_key + 3
end
-- What a head gives up is no move of the change, and a cold board has no pages to carry on.
if changed > 0 and (is_cold or has_head) then
  redis.call('DEL', KEYS[6])
elseif changed > 0 then
  name_next_version(KEYS[6], KEYS[12], moves, table.concat(ARGV, ' '))
end
return changed
