-- Makes the index of one board show one settled change: all windows, both baselines, and what is pending, in one step.
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3] names hash   KEYS[4] baselines hash   KEYS[5] changes stream
-- KEYS[6..] per window: its zset, its members hash
-- ARGV[1] submission id (string)   ARGV[2] player id   ARGV[3] display name, may be empty   ARGV[4] baselines (count)
-- ARGV[5..] per baseline: field, seq, value; then per window: name, seq, order value (decimal, empty: nothing counts),
--   member, submission id, slot value, expiry (Unix ms, empty: never)
-- Returns how many windows changed.
-- Clock: Redis TIME, for the settled set alone. Idempotent: each slot and baseline keeps the ledger's sequence number,
--   and only a higher one is applied, so changes may come twice and in any order.

local id, player, name = ARGV[1], ARGV[2], ARGV[3]
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

local at = 5
for _ = 1, tonumber(ARGV[4]) do
  local field, seq, value = ARGV[at], ARGV[at + 1], ARGV[at + 2]
  if is_newer(redis.call('HGET', KEYS[4], field), seq) then
    redis.call('HSET', KEYS[4], field, value)
  end
  at = at + 3
end

local changed = 0
local window_key = 6
while at <= #ARGV do
  local window, seq, order, member = ARGV[at], ARGV[at + 1], ARGV[at + 2], ARGV[at + 3]
  local submission, slot, expires = ARGV[at + 4], ARGV[at + 5], ARGV[at + 6]
  local zset, members = KEYS[window_key], KEYS[window_key + 1]
  local stored = redis.call('HGET', members, player)
  if is_newer(stored, seq) then
    local old = stored and string.match(stored, '^%d+ (%S*)') or ''
    local was_order, was_rank = '', 0
    if old ~= '' then
      was_order = redis.call('ZSCORE', zset, old) or ''
      was_rank = (redis.call('ZRANK', zset, old) or -1) + 1
      redis.call('ZREM', zset, old)
    end
    if order ~= '' then
      redis.call('ZADD', zset, order, member)
    end
    redis.call('HSET', members, player, slot)
    if name ~= '' then
      redis.call('HSET', KEYS[3], player, name)
    end
    local rank = order ~= '' and redis.call('ZRANK', zset, member) + 1 or 0
    redis.call('XADD', KEYS[5], 'MAXLEN', '~', 10000, '*', 'seq', seq, 'window', window, 'player', player, 'name', name,
      'submission', submission, 'order', order, 'member', member, 'rank', rank,
      'was_order', was_order, 'was_member', old, 'was_rank', was_rank)
    if expires ~= '' then
      redis.call('PEXPIREAT', zset, expires)
      redis.call('PEXPIREAT', members, expires)
    end
    changed = changed + 1
  end
  at = at + 7
  window_key = window_key + 2
end
return changed
