-- Charge one request of some KiB to several limits, if it fits all of them.
-- include: _gcra
-- KEYS per limit, from KEYS[1] on: the limit
-- ARGV[1] size (KiB)   ARGV[2..] per limit: interval (µs, whole), burst (requests), interval (µs, whole),
--   burst (KiB; 0: not limited)
-- Returns {wait_ms, number of the limit that it does not fit (from 1; 0: it fits all), 1 if the wait is for its
--   KiB}; wait_ms 0 means charged.
-- Clock: Redis TIME. Not idempotent: it is sent over a client that never re-sends; a lost reply has charged
--   one request.

local kib, after = tonumber(ARGV[1]), {}
for at = 1, #KEYS do
  local key = KEYS[at]
  local first = at * 4 - 2
  local limit = limit_of(ARGV[first], ARGV[first + 1], ARGV[first + 2], ARGV[first + 3])
  local wait, kib_wait, tat, kib_tat = gcra(key, limit, kib)
  if wait > 0 or kib_wait > 0 then
    return { math.ceil(math.max(wait, kib_wait) / 1000), at, kib_wait > wait and 1 or 0 }
  end
  after[at] = { tat, kib_tat }
end
for at = 1, #KEYS do
  local key = KEYS[at]
  charge(key, after[at][1], after[at][2])
end
return { 0, 0, 0 }
