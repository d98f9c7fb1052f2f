-- Give one consumer of a group its next entries of a lane: abandoned ones first, then new ones.
-- KEYS[1] changes stream of the lane   KEYS[2] mark that the group has missed nothing (string)
-- ARGV[1] group (string)   ARGV[2] consumer (string)   ARGV[3] most entries (count)
-- ARGV[4] idle time after which an entry counts as abandoned (ms)
-- ARGV[5] silence after which a consumer counts as dead (ms)
-- Returns {1 or 0: nothing was missed, entries not yet given to the group (count), entries not acknowledged
--   (count), last id of the stream, entries}. With 0 there are no entries: begin again with mark_group.lua.
-- A dead consumer that holds no entries is forgotten.
-- Clock: none but the stream's. Idempotent: entries that were given and not acknowledged are given again.

local group, consumer, count, idle_ms = ARGV[1], ARGV[2], tonumber(ARGV[3]), ARGV[4]
local dead_ms = tonumber(ARGV[5])

local function missed()
  redis.call('DEL', KEYS[2])
  return { 0, 0, 0, '0-0', {} }
end

local function facts(flat)
  local by_name = {}
  for at = 1, #flat, 2 do
    by_name[flat[at]] = flat[at + 1]
  end
  return by_name
end

local function group_facts()
  for _, flat in ipairs(redis.call('XINFO', 'GROUPS', KEYS[1])) do
    local by_name = facts(flat)
    if by_name['name'] == group then
      return by_name
    end
  end
end

local function is_earlier(id, other_id)
  local ms, number = string.match(id, '^(%d+)-(%d+)$')
  local other_ms, other_number = string.match(other_id, '^(%d+)-(%d+)$')
  if tonumber(ms) ~= tonumber(other_ms) then
    return tonumber(ms) < tonumber(other_ms)
  end
  return tonumber(number) < tonumber(other_number)
end

local mark = redis.call('GET', KEYS[2])
if redis.call('EXISTS', KEYS[1]) == 0 or not mark then
  return missed()
end
local stream, before = facts(redis.call('XINFO', 'STREAM', KEYS[1])), group_facts()
if not before and mark == '0' then
  redis.call('XGROUP', 'CREATE', KEYS[1], group, '0')
  redis.call('SET', KEYS[2], '1')
  before = group_facts()
end
if not before then
  return missed()
end
-- Entries are trimmed in order: once the last given one is trimmed, some that were not given may be gone too.
local first = stream['first-entry']
local has_trimmed = stream['entries-added'] > stream['length']
if first and has_trimmed and is_earlier(before['last-delivered-id'], first[1]) then
  redis.call('XGROUP', 'SETID', KEYS[1], group, '$')
  return missed()
end

local entries = {}
local claimed = redis.call('XAUTOCLAIM', KEYS[1], group, consumer, idle_ms, '0-0', 'COUNT', count)
if claimed[3] and #claimed[3] > 0 then
  return missed()
end
for _, entry in ipairs(claimed[2]) do
  entries[#entries + 1] = entry
end
if #entries < count then
  local room = count - #entries
  local read = redis.call('XREADGROUP', 'GROUP', group, consumer, 'COUNT', room, 'STREAMS', KEYS[1], '>')
  for _, entry in ipairs(read and read[1][2] or {}) do
    entries[#entries + 1] = entry
  end
end
if #entries == 0 then
  for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', KEYS[1], group)) do
    local other = facts(flat)
    if other['pending'] == 0 and other['idle'] > dead_ms then
      redis.call('XGROUP', 'DELCONSUMER', KEYS[1], group, other['name'])
    end
  end
end
local after = group_facts()
return { 1, after['lag'] or stream['length'], after['pending'], stream['last-generated-id'], entries }
