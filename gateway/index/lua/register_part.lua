-- Record that a part of the deployment is running, forget parts that fell silent, and return all reports.
-- KEYS[1] zset of parts by when they count as gone (Unix ms)   KEYS[2] hash of their reports
-- ARGV[1] part id (string)   ARGV[2] its report (string)   ARGV[3] life (ms)   ARGV[4] most parts (count)
-- Returns the report of each running part.
-- Clock: Redis TIME. Idempotent: a part is there once. Entries that no part can have written are removed.

local clock = redis.call('TIME')
local now_ms = clock[1] * 1000 + math.floor(clock[2] / 1000)
local most_parts = tonumber(ARGV[4])

local function type_of(key)
  return redis.call('TYPE', key).ok
end
local function drop(least, highest)
  for _, part in ipairs(redis.call('ZRANGEBYSCORE', KEYS[1], least, highest)) do
    redis.call('HDEL', KEYS[2], part)
  end
  redis.call('ZREMRANGEBYSCORE', KEYS[1], least, highest)
end

if type_of(KEYS[1]) ~= 'zset' or type_of(KEYS[2]) ~= 'hash' or redis.call('ZCARD', KEYS[1]) > most_parts then
  redis.call('DEL', KEYS[1], KEYS[2]) -- running parts report again within their pause
end
drop('-inf', now_ms)
drop(string.format('(%.0f', now_ms + ARGV[3]), '+inf') -- no honest report lasts longer than a life from now
if redis.call('ZSCORE', KEYS[1], ARGV[1]) or redis.call('ZCARD', KEYS[1]) < most_parts then
  redis.call('ZADD', KEYS[1], now_ms + ARGV[3], ARGV[1])
  redis.call('HSET', KEYS[2], ARGV[1], ARGV[2])
end
local running = redis.call('ZRANGE', KEYS[1], 0, -1)
local reports = #running > 0 and redis.call('HMGET', KEYS[2], unpack(running)) or {}
if redis.call('HLEN', KEYS[2]) > #running then -- somebody else wrote into it
  redis.call('DEL', KEYS[2])
  for at, part in ipairs(running) do
    if reports[at] then
      redis.call('HSET', KEYS[2], part, reports[at])
    end
  end
end
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return reports
