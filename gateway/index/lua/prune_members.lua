-- Remove members from a window that the ledger does not know.
-- KEYS[1] window zset   KEYS[2] its members hash   KEYS[3] version of the pages
-- ARGV per entry: member (bytes), player id (bytes), slot value that was read with it (bytes, may be empty)
-- Returns the number removed. An entry whose slot changed since it was read is left for the next check.
-- Clock: none. Idempotent.

local removed = 0
for at = 1, #ARGV, 3 do
  local slot = redis.call('HGET', KEYS[2], ARGV[at + 1]) or ''
  if slot == ARGV[at + 2] then
    removed = removed + redis.call('ZREM', KEYS[1], ARGV[at])
  end
end
if removed > 0 then
  redis.call('DEL', KEYS[3])
end
return removed
