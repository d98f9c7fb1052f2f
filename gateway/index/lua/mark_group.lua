-- Begin a group's part of a lane, or mark that it has missed nothing.
-- KEYS[1] changes stream of the lane   KEYS[2] mark that the group has missed nothing (string)
-- ARGV[1] group (string)   ARGV[2] 1 to set the mark, 0 to begin before the ledger is read
-- Returns 1, or 0 without a mark if entries came to a lane without a group that are gone by now.
-- The mark is `1` if the group is there, and `0` while the lane has no stream: take_changes.lua then makes the
-- group with the first entry.
-- Clock: none. Idempotent.

local begins = ARGV[2] == '0'
if redis.call('EXISTS', KEYS[1]) == 0 then
  if not begins then
    redis.call('SET', KEYS[2], '0')
  end
  return 1
end
local made = redis.pcall('XGROUP', 'CREATE', KEYS[1], ARGV[1], begins and '$' or '0')
if begins then
  return 1
end
local facts = redis.call('XINFO', 'STREAM', KEYS[1])
local by_name = {}
for at = 1, #facts, 2 do
  by_name[facts[at]] = facts[at + 1]
end
-- The group was made only now, and from the first entry on, which has to be there.
if not made['err'] and by_name['entries-added'] > by_name['length'] then
  redis.call('XGROUP', 'DESTROY', KEYS[1], ARGV[1])
  return 0
end
redis.call('SET', KEYS[2], '1')
return 1
