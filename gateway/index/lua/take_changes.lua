-- Gives one consumer of a group its next entries of the stream of changes: first what another left lying, then new ones.
-- KEYS[1] changes stream   KEYS[2] the mark that the group has missed nothing (string)
-- ARGV[1] group (string)   ARGV[2] consumer (string)   ARGV[3] most entries (count)
-- ARGV[4] how long an entry lies before it was left (ms)   ARGV[5] how long a consumer is silent before it is gone (ms)
-- Returns {1 or 0: nothing was missed, how many entries the group has not been given, how many it has not acknowledged,
--   entries}. With 0 there are no entries: begin from the ledger, then set the mark.
-- A consumer that is gone and holds nothing is forgotten.
-- Clock: none but that of the stream. Idempotent: what was given and not acknowledged is given again.

local group, consumer, count, idle_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local gone_ms = tonumber(ARGV[5])

local function missed()
  redis.call('DEL', KEYS[2])
  redis.pcall('XGROUP', 'CREATE', KEYS[1], group, '$', 'MKSTREAM')
  return { 0, 0, 0, {} }
end

local function facts(flat)
  local found = {}
  for at = 1, #flat, 2 do
    found[flat[at]] = flat[at + 1]
  end
  return found
end

local function is_before(a, b)
  local a_ms, a_number = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_number = string.match(b, '^(%d+)-(%d+)$')
  if tonumber(a_ms) ~= tonumber(b_ms) then
    return tonumber(a_ms) < tonumber(b_ms)
  end
  return tonumber(a_number) < tonumber(b_number)
end

if redis.call('EXISTS', KEYS[1]) == 0 or redis.call('EXISTS', KEYS[2]) == 0 then
  return missed()
end
local stream, ours = facts(redis.call('XINFO', 'STREAM', KEYS[1])), nil
for _, each in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local found = facts(each)
  if found['name'] == group then
    ours = found
  end
end
if not ours then
  return missed()
end
-- The last entry that was given is trimmed only after it: then some that were not given may be gone as well.
local first = stream['first-entry']
if first and stream['entries-added'] > stream['length'] and is_before(ours['last-delivered-id'], first[1]) then
  redis.call('XGROUP', 'SETID', KEYS[1], group, '$')
  return missed()
end

local entries = {}
local claimed = redis.call('XAUTOCLAIM', KEYS[1], group, consumer, idle_ms, '0-0', 'COUNT', count)
if claimed[3] and #claimed[3] > 0 then
  return missed()
end
for _, each in ipairs(claimed[2]) do
  entries[#entries + 1] = each
end
if #entries < count then
  local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', count - #entries, 'STREAMS', KEYS[1], '>')
  for _, each in ipairs(read and read[1][2] or {}) do
    entries[#entries + 1] = each
  end
end
if #entries == 0 then
  for _, each in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], group)) do
    local found = facts(each)
    if found['pending'] == 0 and found['idle'] > gone_ms then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, found['name'])
    end
  end
end
for _, each in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
  local found = facts(each)
  if found['name'] == group then
    return { 1, found['lag'] or stream['length'], found['pending'], entries }
  end
end
