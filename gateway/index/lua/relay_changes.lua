-- Copy changes of a shard to the stream of the board's lane.
-- KEYS[1] changes stream of the lane   KEYS[2] relayed hash
-- ARGV[1] shard (number)   ARGV[2] id of the last change that was relayed before these (string, empty: none)
-- ARGV[3] id of the last of these   ARGV[4] fields and values per change (count)
-- ARGV[5] most entries of the stream (count)
-- ARGV[6..] per change: fields and values
-- Returns the number copied; 0 if another caller relayed them meanwhile.
-- Clock: Redis', in the ids of the stream. Idempotent by ARGV[2].

if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[2] then
  return 0
end
local length, copied = tonumber(ARGV[4]), 0
for at = 6, #ARGV, length do
  local change = {}
  for index = at, at + length - 1 do
    change[#change + 1] = ARGV[index]
  end
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', ARGV[5], '*', unpack(change))
  copied = copied + 1
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return copied
