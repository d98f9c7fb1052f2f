-- Admit a group of submissions of one board within its limits, and return the history of their players.
-- include: _gcra
-- KEYS[1] pending zset   KEYS[2] settled zset   KEYS[3] baselines hash   KEYS[4] sentinel
-- KEYS[5..] per submission: limit of the player, of the address, of the network, refusals of the player, of
--   the address
-- ARGV[1..] per limit, of player, address and network, from ARGV[1] on: interval (µs, whole), burst
--   (requests), interval (µs, whole), burst (KiB)
-- ARGV[13] longest that refusals limit (ms)
-- ARGV[14] populations (count), then the field of each in the baselines hash; then per submission, to the
--   end: submission id (string), player id (string), size (KiB)
-- Returns {1 if the index is whole or 0, per population: its baseline or false, then per submission: status,
--   wait_ms, left, player baseline or false, refusals that limited the player before (count)}; status 0
--   admitted, 1 already known (a resend: only address and network are charged), 2 refused by the limit of the
--   player, 3 of the address, 4 of the network; by the KiB of the player 5, the address 6, the network 7; for
--   too many refusals 8.
-- Clock: Redis TIME. Not idempotent: it is sent over a client that never re-sends; a lost reply has charged
--   one request.

local populations = tonumber(ARGV[14])
local baselines = redis.call('HMGET', KEYS[3], unpack(ARGV, 15, 14 + populations))
local answer = { redis.call('EXISTS', KEYS[4]), unpack(baselines) }
local of_player, of_address = limit_of(unpack(ARGV, 1, 4)), limit_of(unpack(ARGV, 5, 8))
local of_network = limit_of(unpack(ARGV, 9, 12))
local now_ms, longest_ms = math.floor(now_us / 1000), tonumber(ARGV[13])

local function tell(status, wait_us, left_cells, baseline, refusals)
  local at = #answer
  answer[at + 1], answer[at + 2], answer[at + 3] = status, math.ceil(wait_us / 1000), left_cells
  answer[at + 4], answer[at + 5] = baseline, refusals
end

-- Return how long the refusals of a player or an address still limit it (µs), how many limited it before
-- (`count_refusal.lua`), and whether any is remembered.
local function refused(key)
  local stored = redis.call('GET', key)
  local until_ms, before = string.match(stored or '', '^%d+ (%d+) (%d+)$')
  local wait_ms = math.max(0, (tonumber(until_ms) or 0) - now_ms)
  return math.min(wait_ms, longest_ms) * 1000, tonumber(before) or 0, stored and true or false
end

local key_at = 5
for at = 15 + populations, #ARGV, 3 do
  local id, player, kib = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local player_key, address_key, network_key = KEYS[key_at], KEYS[key_at + 1], KEYS[key_at + 2]
  local is_known = redis.call('ZSCORE', KEYS[1], id) or redis.call('ZSCORE', KEYS[2], id)
  local player_wait, player_kib_wait, player_tat, player_kib_tat = gcra(player_key, of_player, kib)
  local address_wait, address_kib_wait, address_tat, address_kib_tat = gcra(address_key, of_address, kib)
  local network_wait, network_kib_wait, network_tat, network_kib_tat = gcra(network_key, of_network, kib)
  local baseline = redis.call('HGET', KEYS[3], player)
  local refused_us, refusals, was_refused = refused(KEYS[key_at + 3])
  -- The address's refusals spare players with a history and none of their own: otherwise strangers behind the
  -- same address could shut them out with throwaway players.
  if was_refused or not baseline then
    refused_us = math.max(refused_us, (refused(KEYS[key_at + 4])))
  end
  key_at = key_at + 5
  if network_wait > 0 then
    tell(4, network_wait, 0, false, 0)
  elseif address_wait > 0 then
    tell(3, address_wait, 0, false, 0)
  elseif network_kib_wait > 0 then
    tell(7, network_kib_wait, 0, false, 0)
  elseif address_kib_wait > 0 then
    tell(6, address_kib_wait, 0, false, 0)
  elseif is_known then
    charge(address_key, address_tat, address_kib_tat)
    charge(network_key, network_tat, network_kib_tat)
    tell(1, 0, 0, false, 0)
  elseif refused_us > 0 then
    tell(8, refused_us, 0, false, refusals)
  elseif player_wait > 0 then
    tell(2, player_wait, 0, false, 0)
  elseif player_kib_wait > 0 then
    tell(5, player_kib_wait, 0, false, 0)
  else
    charge(player_key, player_tat, player_kib_tat)
    charge(address_key, address_tat, address_kib_tat)
    charge(network_key, network_tat, network_kib_tat)
    tell(0, 0, left(player_tat, of_player.us, of_player.burst), baseline, refusals)
  end
end
return answer
