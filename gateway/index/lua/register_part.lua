-- Notes that a part of the deployment is there, lets go of those that were not heard of, and tells which are there.
-- KEYS[1] zset of parts by when they are thought gone (Unix ms)   KEYS[2] hash of what each says
-- ARGV[1] part id (string)   ARGV[2] what it says (string)   ARGV[3] life (ms)   ARGV[4] most parts (count)
-- Returns what each part says that is there.
-- Clock: Redis TIME. Idempotent: a part is there once. What no part can have written is thrown out.

local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local most = tonumber(ARGV[4])

local function type_of(key)
  return redis.call('TYPE', key).ok
end
local function drop(least, highest)
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], least, highest)) do
    redis.call('HDEL', KEYS[2], gone)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], least, highest)
end

if type_of(KEYS[1]) ~= 'zset' or type_of(KEYS[2]) ~= 'hash' or redis.call('ZCARD', KEYS[1]) > most then
  redis.call('DEL', KEYS[1], KEYS[2]) -- the parts that there are say so again, each within its pause
end
drop('-inf', now_ms)
drop(string.format('(%.0f', now_ms + ARGV[3]), '+inf') -- nobody is there for longer than a life from now
if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCARD', KEYS[1]) < most then
  redis.call('ZADD', KEYS[1], now_ms + ARGV[3], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
local there = redis.call('ZRANGE', KEYS[1], 0, -1)
local said = #there > 0 and redis.call('HMGET', KEYS[2], unpack(there)) or {}
if redis.call('HLEN', KEYS[2]) > #there then -- somebody else wrote into it
  redis.call('DEL', KEYS[2])
  for at, part in ipairs(there) do
    if said[at] then
      redis.call('HSET', KEYS[2], part, said[at])
    end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return said
