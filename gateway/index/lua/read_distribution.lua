-- Read the distribution of a window's scores in one step.
-- KEYS[1] window zset
-- ARGV[1] requested scores (count)
-- ARGV[2..] per score: its least order, as an open bound (`(` and decimal); then shares (hundredths of a
--   percent)
-- Returns {total, entries ahead of each score, order at each share, first order, last order}; orders are
--   decimal, and an empty window has none.
-- Clock: none. Read-only.

local total, scores = redis.call('ZCARD', KEYS[1]), tonumber(ARGV[1])

local function order_at(rank)
  return redis.call('ZRANGE', KEYS[1], rank, rank, 'WITHSCORES')[2]
end

local counts, orders = {}, {}
for at = 2, scores + 1 do
  counts[#counts + 1] = redis.call('ZCOUNT', KEYS[1], '-inf', ARGV[at])
end
if total == 0 then
  return { 0, counts, orders }
end
for at = scores + 2, #ARGV do
  -- Exact: the product stays far below 2^53, and a quotient that is not whole is at least 1/10000 from the
  -- next integer.
  orders[#orders + 1] = order_at(total - math.max(1, math.ceil(tonumber(ARGV[at]) * total / 10000)))
end
return { total, counts, orders, order_at(0), order_at(total - 1) }
