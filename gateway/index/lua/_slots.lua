-- What a slot of a members hash says, shared by the scripts that name it in `include`.
-- A slot is the sequence number, the member, and the submission. No member: nothing counts; `=`: the member is the player;
-- `-`: what counts is below the ranks that the board keeps, and there is no member.

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

-- How many standings are below the ranks that the board keeps, and the version of that; none where all are kept.
local function below_in(members)
  local version, count = string.match(redis.call('HGET', members, '*') or '', '^(%d+) (%d+)$')
  return tonumber(count or 0), version
end

local function submission_in(slot)
  return slot and string.match(slot, '^%d+ %S* (%S*)') or ''
end

-- No player id has a colon in it, and every member ends with one.
local function player_in(member)
  return string.match(member, '([^:]*)$')
end
