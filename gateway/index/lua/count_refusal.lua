-- Count a claim that was refused, or rejected at once, and limit a player or an address with too many.
-- KEYS per counter, from KEYS[1] on: refusals of the player, of the address
-- ARGV[1] window (ms)   ARGV[2] how long a limit is remembered (ms)
-- ARGV[3..] per key: most refusals in a window (count)
-- Returns per key: 1 if it is limited from now on, or 0.
-- A key holds `<refusals in this window> <end of the limit (ms, 0: none)> <refusals of the windows that ended
-- in a limit>`.
-- Clock: Redis TIME. Not idempotent: it is sent over a client that never re-sends; a lost reply has counted
--   one refusal.

local clock = redis.call('TIME')
local now_ms = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local window_ms, memory_ms = tonumber(ARGV[1]), tonumber(ARGV[2])
local limited = {}
for at = 1, #KEYS do
  local key = KEYS[at]
  local count, until_ms, before = string.match(redis.call('GET', key) or '', '^(%d+) (%d+) (%d+)$')
  count, until_ms, before = (tonumber(count) or 0) + 1, tonumber(until_ms) or 0, tonumber(before) or 0
  limited[at] = 0
  if count >= tonumber(ARGV[2 + at]) then
    count, until_ms, before, limited[at] = 0, now_ms + window_ms, before + count, 1
  end
  local life_ms = redis.call('PTTL', key)
  if limited[at] == 1 then
    life_ms = memory_ms
  elseif life_ms < 1 or (before == 0 and life_ms > window_ms) then
    life_ms = window_ms
  end
  redis.call('SET', key, string.format('%.0f %.0f %.0f', count, until_ms, before), 'PX', life_ms)
end
return limited
