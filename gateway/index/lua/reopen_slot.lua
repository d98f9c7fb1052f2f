-- Lets a player's slot be replaced by a standing of the very number it has, as a standing that no event caused has.
-- KEYS[1] members hash
-- ARGV[1] player id (string)   ARGV[2] number of the standing that is about to be shown (whole)   ARGV[3] its slot value
-- Returns 1 if the slot was let go by one number, 0 if it has another number, or says the same already.
-- Clock: none. Idempotent: a slot that was let go has another number.

local slot = redis.call('HGET', KEYS[1], ARGV[1]) or ''
local seq, rest = string.match(slot, '^(%d+)(.*)$')
if seq ~= ARGV[2] or slot == ARGV[3] then
  return 0
end
redis.call('HSET', KEYS[1], ARGV[1], table.concat({ string.format('%.0f', tonumber(seq) - 1), rest }))
return 1
