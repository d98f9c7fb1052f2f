-- Takes changes of a shard into the stream of the whole board.
-- KEYS[1] changes stream of the board   KEYS[2] relayed hash
-- ARGV[1] shard (number)   ARGV[2] id of the last change that was relayed before these (string, empty: none)
-- ARGV[3] id of the last of these   ARGV[4] fields and values of each (count)   ARGV[5..] per change: fields and values
-- Returns how many were taken; 0 if another relayed them meanwhile.
-- Clock: Redis', in the ids of the stream. Idempotent by ARGV[2].

if (redis.call('HGET', KEYS[2], ARGV[1]) or '') ~= ARGV[2] then
  return 0
end
local parts, taken = tonumber(ARGV[4]), 0
for at = 5, #ARGV, parts do
  local change = {}
  for part = at, at + parts - 1 do
    change[#change + 1] = ARGV[part]
  end
  redis.call('XADD', KEYS[1], 'MAXLEN', '~', 10000, '*', unpack(change))
  taken = taken + 1
end
redis.call('HSET', KEYS[2], ARGV[1], ARGV[3])
return taken
