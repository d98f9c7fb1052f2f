-- Notes that a part of the deployment is there, lets go of those that were not heard of, and tells which are there.
-- KEYS[1] zset of parts by when they are thought gone (Unix ms)   KEYS[2] hash of what each says
-- ARGV[1] part id (string)   ARGV[2] what it says (string)   ARGV[3] life (ms)   ARGV[4] most parts (count)
-- Returns what each part says that is there.
-- Clock: Redis TIME. Idempotent: a part is there once.

local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', now_ms)) do
  redis.call('HDEL', KEYS[2], gone)
end
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now_ms)
if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCARD', KEYS[1]) < tonumber(ARGV[4]) then
  redis.call('ZADD', KEYS[1], now_ms + ARGV[3], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
local there = redis.call('ZRANGE', KEYS[1], 0, -1)
return #there > 0 and redis.call('HMGET', KEYS[2], unpack(there)) or {}
