-- Remove fields from a hash that the ledger does not know.
-- KEYS[1] the hash: slots, names or baselines   KEYS[2] version of the pages
-- ARGV per field: field (bytes), value that was read there (bytes)
-- Returns the number removed. A field whose value changed since it was read is left for the next check.
-- Clock: none. Idempotent.

local removed = 0
for at = 1, #ARGV, 2 do
  if redis.call('HGET', KEYS[1], ARGV[at]) == ARGV[at + 1] then
    removed = removed + redis.call('HDEL', KEYS[1], ARGV[at])
  end
end
if removed > 0 then
  redis.call('DEL', KEYS[2])
end
return removed
