-- Note that a board was used, and that it is wanted if it is not whole.
-- KEYS[1] mark of use   KEYS[2] wanted boards of the lane
-- ARGV[1] board   ARGV[2] time without use after which it goes cold (ms, empty: never)
-- ARGV[3] 1 if the index lacked the board   ARGV[4] most wanted boards of a lane (count)
-- Returns 1 if the board is wanted now, else 0; with as many others wanted already, it is not.
-- Clock: Redis TIME, for the wanted boards. Idempotent.

if ARGV[2] ~= '' then
  redis.call('SET', KEYS[1], '1', 'PX', ARGV[2])
end
if ARGV[3] ~= '1' or redis.call('ZCARD', KEYS[2]) >= tonumber(ARGV[4]) then
  return 0
end
local clock = redis.call('TIME')
redis.call('ZADD', KEYS[2], 'NX', clock[1] * 1000 + math.floor(clock[2] / 1000), ARGV[1])
return 1
