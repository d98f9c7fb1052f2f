-- Lets a group of submissions of one board past its limits, with what is known of their players.
-- include: _gcra
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3] baselines hash   KEYS[4] sentinel
-- KEYS[5..] per submission: limit of the player, limit of the address
-- ARGV[1] player interval (µs, whole)   ARGV[2] player burst (cells)
-- ARGV[3] address interval (µs, whole)  ARGV[4] address burst (cells)
-- ARGV[5] populations (count), then the field of each in the baselines hash; then per submission, to ARGV[6..]'s end:
--   submission id (string), player id (string)
-- Returns {1 if the index is whole or 0, per population: its baseline or false, then per submission: status, wait_ms, left, player baseline or false};
--   status 0 admitted, 1 already known (a resend: only the address is charged), 2 refused by the player's limit, 3 by the address's.
-- Clock: Redis TIME. Not idempotent: it is sent over a client that never re-sends; a lost reply has charged one cell.

local populations = tonumber(ARGV[5])
local answer = { redis.call('EXISTS', KEYS[4]), unpack(redis.call('HMGET', KEYS[3], unpack(ARGV, 6, 5 + populations))) }
local player_us, player_burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local address_us, address_burst = tonumber(ARGV[3]), tonumber(ARGV[4])

local function tell(status, wait_ms, left_cells, baseline)
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3], answer[at + 4] = status, wait_ms, left_cells, baseline
end

local limit_key = 5
for at = 6 + populations, #ARGV, 2 do
  local id, player = ARGV[at], ARGV[at + 1]
  local player_key, address_key = KEYS[limit_key], KEYS[limit_key + 1]
  limit_key = limit_key + 2
  local is_known = redis.call('ZSCORE', KEYS[1], id) or redis.call('ZSCORE', KEYS[2], id)
  local player_wait, player_tat = gcra(player_key, player_us, player_burst)
  local address_wait, address_tat = gcra(address_key, address_us, address_burst)
  if address_wait > 0 then
    tell(3, math.ceil(address_wait / 1000), 0, false)
  elseif is_known then
    charge(address_key, address_tat)
    tell(1, 0, 0, false)
  elseif player_wait > 0 then
    tell(2, math.ceil(player_wait / 1000), 0, false)
  else
    charge(player_key, player_tat)
    charge(address_key, address_tat)
    local baseline = redis.call('HGET', KEYS[3], player)
    tell(0, 0, left(player_tat, player_us, player_burst), baseline)
  end
end
return answer
