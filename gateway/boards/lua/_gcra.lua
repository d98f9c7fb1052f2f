-- The generic cell rate algorithm (ITU-T I.371, virtual scheduling), shared by the scripts that name it in `include`.
-- A key holds the theoretical arrival time (TAT) in whole microseconds of Redis' own clock; intervals are whole too,
-- so every sum is exact.

local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- Wait in µs until one more cell fits (0: it fits now), and the TAT after it.
local function gcra(key, interval_us, burst)
  local tat = math.max(tonumber(redis.call('GET', key) or '0'), now_us)
  local earliest = tat - interval_us * (burst - 1)
  return math.max(0, earliest - now_us), tat + interval_us
end

-- '%.0f' is exact to 2^53; Lua's own tostring keeps 14 digits.
local function charge(key, tat)
  redis.call('SET', key, string.format('%.0f', tat), 'PX', math.ceil((tat - now_us) / 1000) + 1)
end

local function left(tat, interval_us, burst)
  return math.max(0, math.floor(burst - (tat - now_us) / interval_us))
end
