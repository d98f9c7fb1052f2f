-- Read a page of a player and their friends, by rank among them, from a circle that is kept up to date.
-- include: _subset
-- KEYS[1] circle zset   KEYS[2] circle members hash   KEYS[3] window zset   KEYS[4] its members hash
-- KEYS[5] names hash
-- KEYS[6] changes stream of the lane
-- ARGV[1] player id whose neighbours to read, empty for a page
-- ARGV[2] first rank among them, from 0 (of a page)
-- ARGV[3] last rank from 0, or neighbours on each side (count)   ARGV[4] name of the window
-- ARGV[5] how long a circle is stored (ms)   ARGV[6..] player ids of the circle, all or none
-- Returns 0 if there is no circle and no ids came, else what read_subset.lua returns.
-- Clock: none but for the expiry of keys. Idempotent: what it writes follows from the window.

local around, first, last, window, life_ms = ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]), ARGV[4], ARGV[5]
local replayed_limit = 100 -- after more changes than this, looking up every player again is cheaper

local function place(player, old_member)
  if old_member and old_member ~= '' then
    redis.call('ZREM', KEYS[1], old_member)
  end
  local member = member_in(redis.call('HGET', KEYS[4], player), player)
  local order = member ~= '' and redis.call('ZSCORE', KEYS[3], member)
  if order then
    redis.call('ZADD', KEYS[1], order, member)
  end
  redis.call('HSET', KEYS[2], player, order and member or '')
end

local function make(players)
  local newest = redis.call('XREVRANGE', KEYS[6], '+', '-', 'COUNT', 1)
  redis.call('DEL', KEYS[1], KEYS[2])
  for _, player in ipairs(players) do
    place(player)
  end
  redis.call('HSET', KEYS[2], '*', newest[1] and newest[1][1] or '0-0')
  redis.call('PEXPIRE', KEYS[1], life_ms)
  redis.call('PEXPIRE', KEYS[2], life_ms)
end

local function make_again()
  local players = {}
  for _, player in ipairs(redis.call('HKEYS', KEYS[2])) do
    if player ~= '*' then
      players[#players + 1] = player
    end
  end
  make(players)
end

-- Place again the players whose standing in this window changed since entry `newest_id` of the stream.
local function catch_up(newest_id)
  local rows = redis.call('XRANGE', KEYS[6], newest_id, '+', 'COUNT', replayed_limit + 1)
  if #rows > replayed_limit then
    return make_again()
  end
  for _, row in ipairs(rows) do
    local change = {}
    for at = 1, #row[2], 2 do
      change[row[2][at]] = row[2][at + 1]
    end
    local is_here = change.window == window and change.player
    local old_member = is_here and redis.call('HGET', KEYS[2], change.player)
    if old_member then
      place(change.player, old_member)
    end
    redis.call('HSET', KEYS[2], '*', row[1])
  end
  -- A zset that was empty has lost its expiry; an expiry of 0 would delete what is about to be read.
  redis.call('PEXPIRE', KEYS[1], math.max(1, redis.call('PTTL', KEYS[2])))
end

-- An empty window needs no circle, and strangers must not make us store one.
if redis.call('EXISTS', KEYS[4]) == 0 then
  if around ~= '' then
    return false
  end
  return { 0, first, {} }
end
local newest_id = redis.call('HGET', KEYS[2], '*')
if #ARGV >= 6 then
  local players = {}
  for at = 6, #ARGV do
    players[#players + 1] = ARGV[at]
  end
  make(players)
elseif newest_id then
  catch_up(newest_id)
else
  return 0
end

local page = subset_page(KEYS[1], KEYS[3], KEYS[4], KEYS[5], around, first, last)
for _, row in ipairs(page and page[3] or {}) do
  if row[6] < 0 then -- a repair removed its member without an entry in the stream
    make_again()
    return subset_page(KEYS[1], KEYS[3], KEYS[4], KEYS[5], around, first, last)
  end
end
return page
