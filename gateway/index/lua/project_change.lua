-- Show settled changes in a board's index: windows, baselines and the pending set, all in one step.
-- include: _head
-- include: _moves
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3] names hash   KEYS[4] baselines hash
-- KEYS[5] changes stream of the lane
-- KEYS[6] version of the pages   KEYS[7] mark of a cold board   KEYS[8] sentinel of the board
-- KEYS[9] residents of the lane   KEYS[10] its wanted boards   KEYS[11] its tails
-- KEYS[12] moves of the pages
-- KEYS[13..] per window: its zset, its members hash, its groups zset
-- ARGV[1] tie digits (count)   ARGV[2] 1 if groups are kept, for dense ranks
-- ARGV[3] 1 if ranks are told only while the board is whole
-- ARGV[4] board or shard   ARGV[5] 1 for a board, 0 for a shard, which is no resident of its own
-- ARGV[6] most entries of the stream (count)   ARGV[7] most entries of a window (count, empty: all)
-- ARGV[8] settled submissions (count)   ARGV[9] baselines (count)
-- ARGV[10..] the id of each submission (string); per baseline: field, seq, value; per standing: number of its
--   window (from 1, in the order of KEYS), the window's name, player id, display name (may be empty), seq, order
--   (decimal, empty: nothing counts), member, submission id, slot value, expiry (Unix ms, empty: never), orders
--   per score (count)
-- Returns the number of standings that changed. No window of a cold board is touched. The stream tells no ranks
--   of a board that is cold or not whole: counted in a part of a board, they would be wrong.
-- Clock: Redis TIME, for the settled set, and to skip windows that have expired. Idempotent: each slot and
--   baseline holds the ledger's sequence number, and only a higher one is applied, so changes may come twice
--   and in any order.

local tie_digits, keeps_groups = tonumber(ARGV[1]), ARGV[2] == '1'
local board, is_board, most_changes, most_entries = ARGV[4], ARGV[5] == '1', ARGV[6], tonumber(ARGV[7])
local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local hour_ms = 3600000
local version = redis.call('GET', KEYS[6]) -- without readers there is none, and no moves are kept
local is_cold = redis.call('EXISTS', KEYS[7]) == 1
local is_whole = redis.call('EXISTS', KEYS[8]) == 1
local tells_ranks = is_whole or ARGV[3] ~= '1'
local changed, moves, expiries = 0, {}, {}

local function is_newer(stored, seq)
  return not stored or tonumber(string.match(stored, '^%d+')) < tonumber(seq)
end

-- Move submissions, whose ids are in ARGV, from the pending set to the settled one.
local function settle(first, count)
  if count == 0 then
    return
  end
  local settled = {}
  for at = first, first + count - 1 do
    settled[#settled + 1] = now_ms
    settled[#settled + 1] = ARGV[at]
  end
  redis.call('ZREM', KEYS[1], unpack(ARGV, first, first + count - 1))
  redis.call('ZADD', KEYS[2], unpack(settled))
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', now_ms - hour_ms)
end

local function learn(field, seq, value)
  if is_newer(redis.call('HGET', KEYS[4], field), seq) then
    redis.call('HSET', KEYS[4], field, value)
  end
end

-- Take a player's entry out of a window, and return the order and the rank (from 1) that it had.
local function take_out(zset, groups, member, orders_per_score)
  local order = redis.call('ZSCORE', zset, member) or ''
  local rank = tells_ranks and (redis.call('ZRANK', zset, member) or -1) + 1 or 0
  if keeps_groups and order ~= '' then
    leave_group(zset, groups, order, member, orders_per_score, tie_digits)
  end
  redis.call('ZREM', zset, member)
  return order, rank
end

-- Put an entry into a window, and return its rank (from 1).
local function put_in(zset, members, groups, order, member, orders_per_score)
  redis.call('ZADD', zset, order, member)
  if keeps_groups then
    join_group(groups, order, member, orders_per_score, tie_digits)
  end
  if most_entries then
    keep_head(zset, members, groups, most_entries, member, orders_per_score, tie_digits, keeps_groups)
  end
  return tells_ranks and (redis.call('ZRANK', zset, member) or -1) + 1 or 0
end

-- Show the standing at an index of ARGV, if it is newer than what its window has.
local function show(at)
  local window_key = 10 + 3 * tonumber(ARGV[at])
  local zset, members, groups = KEYS[window_key], KEYS[window_key + 1], KEYS[window_key + 2]
  local window, player, name, seq, order, member, submission, slot, expires = unpack(ARGV, at + 1, at + 9)
  local orders_per_score = tonumber(ARGV[at + 10])
  if expires ~= '' and tonumber(expires) <= now_ms then
    return
  end
  -- The windows of a cold board are only in the ledger: a part of one in Redis would pass for all of it.
  local slot_of = table.concat({ window, player }, ' ')
  local stored
  if is_cold then
    stored = redis.call('HGET', KEYS[7], slot_of)
  else
    stored = redis.call('HGET', members, player)
  end
  if not is_newer(stored, seq) then
    return
  end
  changed = changed + 1
  local rank, old_member, was_order, was_rank = 0, '', '', 0
  if is_cold then
    redis.call('HSET', KEYS[7], slot_of, seq)
  else
    old_member = member_in(stored, player)
    if old_member ~= '' then
      was_order, was_rank = take_out(zset, groups, old_member, orders_per_score)
    end
    if is_below(stored) then
      add_below(members, -1)
    end
    if most_entries and is_board then
      redis.call('ZADD', KEYS[11], 'LT', now_ms, board)
    end
    redis.call('HSET', members, player, slot)
    if version then
      moves[#moves + 1] = move_of(window, player, name, redis.call('HGET', KEYS[3], player), was_order,
        old_member, order, member)
    end
    if order ~= '' then
      rank = put_in(zset, members, groups, order, member, orders_per_score)
    end
    if name ~= '' then
      redis.call('HSET', KEYS[3], player, name)
    end
    if expires ~= '' then
      expiries[window_key] = expires
    end
  end
  redis.call('XADD', KEYS[5], 'MAXLEN', '~', most_changes, '*', 'board', board, 'seq', seq, 'window', window,
    'player', player, 'name', name, 'submission', submission, 'order', order, 'member', member, 'rank', rank,
    'was_order', was_order, 'was_member', old_member, 'was_rank', was_rank)
end

local function show_all()
  local submissions, baselines = tonumber(ARGV[8]), tonumber(ARGV[9])
  settle(10, submissions)
  local at = 10 + submissions
  for _ = 1, baselines do
    learn(ARGV[at], ARGV[at + 1], ARGV[at + 2])
    at = at + 3
  end
  for first = at, #ARGV, 11 do
    show(first)
  end
end

if is_board then
  redis.call('ZADD', KEYS[9], 'NX', now_ms, board)
  if not is_whole then
    redis.call('ZADD', KEYS[10], 'NX', now_ms, board)
  end
end
-- A key of another type ends the script between two writes. Pages are outdated even then.
local is_shown, failure = pcall(show_all)
for window_key, expires in pairs(expiries) do
  for key = window_key, window_key + 2 do
    redis.call('PEXPIREAT', KEYS[key], expires)
  end
end
-- What a head gives up is no move of the changes, and a cold board has no pages to carry on.
if changed > 0 and (is_cold or most_entries or not is_shown) then
  redis.call('DEL', KEYS[6])
elseif changed > 0 and version then
  name_next_version(KEYS[6], version, KEYS[12], moves, table.concat(ARGV, ' '))
end
if not is_shown then
  error(failure, 0)
end
return changed
