-- End a rebuild: release its lease and, if everything is in place, mark the index as whole.
-- KEYS[1] lease of the rebuild   KEYS[2] sentinel
-- ARGV[1] generation (string)   ARGV[2] 1 if the index is whole now, 0 if the rebuild is given up
-- Returns 1, or 0 without any change if another builder has the lease or it has expired.
-- Clock: none. Idempotent.

if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return 0
end
if ARGV[2] == '1' then
  redis.call('SET', KEYS[2], '1')
end
redis.call('DEL', KEYS[1])
return 1
