-- Ends a rebuild: gives its lease back and, if all is in place, says that the index is whole.
-- KEYS[1] lease of the rebuild   KEYS[2] sentinel
-- ARGV[1] generation (string)   ARGV[2] 1 if the index is whole now, 0 if the rebuild is given up
-- Returns 1, or 0 and nothing is done if the lease is another's or has ended.
-- Clock: none. Idempotent.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' then
  redis.call('SET', KEYS[2], '1')
end
redis.call('DEL', KEYS[1])
return 1
