-- Charges one cell to a limit, if it fits.
-- include: _gcra
-- KEYS[1] the limit
-- ARGV[1] interval (µs, whole)   ARGV[2] burst (cells)
-- Returns {wait_ms, left}; wait_ms 0 means charged.
-- Clock: Redis TIME. Not idempotent: it is sent over a client that never re-sends; a lost reply has charged one cell.

local interval_us, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local wait, tat = gcra(KEYS[1], interval_us, burst)
if wait > 0 then
  return { math.ceil(wait / 1000), 0 }
end
charge(KEYS[1], tat)
return { 0, left(tat, interval_us, burst) }
