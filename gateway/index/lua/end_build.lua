-- End a rebuild: release its lease and, if everything is in place, mark the index as whole.
-- KEYS[1] lease of the rebuild   KEYS[2] sentinel   KEYS[3] mark of use
-- KEYS[4] residents of the lane   KEYS[5] its idle boards   KEYS[6] its wanted boards   KEYS[7] its tails
-- ARGV[1] generation (string)   ARGV[2] 1 if the index is whole now, 0 if the rebuild is given up
-- ARGV[3] board, empty for a shard, which is no resident of its own
-- ARGV[4] time without use after which the board goes cold (ms, empty: never)   ARGV[5] 1 if it has tails
-- Returns 1, or 0 without any change if another builder has the lease or it has expired.
-- Clock: Redis TIME, for the sets of the lane. Idempotent.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' then
  redis.call('SET', KEYS[2], '1')
  local board, life_ms = ARGV[3], ARGV[4]
  if board ~= '' then
    local clock = redis.call('TIME')
    local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
    redis.call('ZADD', KEYS[4], 'NX', now_ms, board)
    redis.call('ZREM', KEYS[6], board)
    if ARGV[5] == '1' then
      redis.call('ZADD', KEYS[7], now_ms, board)
    end
    if life_ms ~= '' then
      redis.call('SET', KEYS[3], '1', 'PX', life_ms)
      redis.call('ZADD', KEYS[5], now_ms + life_ms, board)
    end
  end
end
redis.call('DEL', KEYS[1])
return 1
