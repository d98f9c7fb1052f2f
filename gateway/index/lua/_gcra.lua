-- The generic cell rate algorithm (ITU-T I.371, virtual scheduling), shared by the scripts that name this
-- file in `include`. A key holds two theoretical arrival times (TAT), of requests and of KiB, in whole
-- microseconds of Redis' own clock. Intervals are whole too, so every sum is exact.

local clock = redis.call('TIME')
local now_us = tonumber(clock[1]) * 1000000 + tonumber(clock[2])

-- Return a limit: interval (µs, whole) and burst of requests, then of KiB; both 0 if KiB are not limited.
local function limit_of(interval_us, burst, kib_interval_us, kib_burst)
  return {
    us = tonumber(interval_us), burst = tonumber(burst),
    kib_us = tonumber(kib_interval_us), kib_burst = tonumber(kib_burst),
  }
end

-- Cap a stored TAT at a whole burst from now: one written while the clock ran ahead would shut its owner out
-- for longer.
local function arrival(stored, interval_us, burst)
  return math.min(math.max(tonumber(stored) or 0, now_us), now_us + interval_us * burst)
end

-- Return the waits in µs until one more request fits and until the KiB fit (0: they fit now), and both TATs
-- after them. A size beyond the whole burst counts as the burst, or it would never fit.
local function gcra(key, limit, kib)
  local requests, kibs = string.match(redis.call('GET', key) or '', '^(%d+) ?(%d*)$')
  local tat = arrival(requests, limit.us, limit.burst)
  local kib_tat = arrival(kibs, limit.kib_us, limit.kib_burst)
  local cells = math.min(kib, limit.kib_burst)
  local wait = math.max(0, tat + limit.us * (1 - limit.burst) - now_us)
  local kib_wait = math.max(0, kib_tat + limit.kib_us * (cells - limit.kib_burst) - now_us)
  return wait, kib_wait, tat + limit.us, kib_tat + limit.kib_us * cells
end

-- '%.0f' is exact to 2^53; Lua's own tostring keeps 14 digits.
local function charge(key, tat, kib_tat)
  local life_ms = math.ceil((math.max(tat, kib_tat) - now_us) / 1000) + 1
  redis.call('SET', key, string.format('%.0f %.0f', tat, kib_tat), 'PX', life_ms)
end

-- Return how many more requests fit now.
local function left(tat, interval_us, burst)
  return math.max(0, math.floor(burst - (tat - now_us) / interval_us))
end
