-- Readers of the slots of a members hash, shared by the scripts that name this file in `include`. A slot
-- holds the sequence number, the member and the submission. The member is empty if nothing counts, `=` if it
-- equals the player id, and `-` if the standing is below the ranks that the board keeps.

local function member_in(slot, player)
  local member = slot and string.match(slot, '^%d+ (%S*)') or ''
  if member == '-' then
    return ''
  end
  return member == '=' and player or member
end

local function is_below(slot)
  return slot and string.match(slot, '^%d+ %-$') ~= nil -- a member of tie fields may begin with a minus
end

-- Return the number of standings below the ranks that the board keeps, and its version (nil if all ranks are
-- kept).
local function below_in(members)
  local version, count = string.match(redis.call('HGET', members, '*') or '', '^(%d+) (%d+)$')
  return tonumber(count or 0), version
end

local function submission_in(slot)
  return slot and string.match(slot, '^%d+ %S* (%S*)') or ''
end

-- Every member ends with the player id, which contains no colon.
local function player_in(member)
  return string.match(member, '([^:]*)$')
end
