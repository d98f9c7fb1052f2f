-- Let a standing that no event caused replace a player's slot, though both have the same number.
-- KEYS[1] members hash
-- ARGV[1] player id (string)   ARGV[2] number of the standing that is about to be shown (whole)
-- ARGV[3] its slot value
-- Returns 1 if the slot's number was lowered by one, 0 if it has another number or already holds this value.
-- Clock: none. Idempotent: a reopened slot has another number.

local slot = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local seq, rest = string.match(slot, '^(%d+)(.*)$')
if seq ~= ARGV[2] or slot == ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], table.concat({ string.format('%.0f', tonumber(seq) - 1), rest }))
return 1
