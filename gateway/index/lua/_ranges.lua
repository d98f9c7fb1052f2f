-- Show each window in `ranges` to the script after it as one ZSET: sent before any script that is given one.
-- At the end of KEYS stand the ranges of each window, in the order of the board. At the end of ARGV stand,
-- per window, its index in KEYS and the least order of each range but the first; then the ranges of a window
-- (count) and the windows (count).

local windows, script_keys, script_arguments = {}, {}, {}
do
  local count, ranges = tonumber(ARGV[#ARGV]), tonumber(ARGV[#ARGV - 1])
  local key_at, at = #KEYS - count * ranges, #ARGV - 2 - count * ranges
  for index = 1, key_at do
    script_keys[index] = KEYS[index]
  end
  for index = 1, at do
    script_arguments[index] = ARGV[index]
  end
  for _ = 1, count do
    local window = { zsets = {}, borders = {} }
    windows[KEYS[tonumber(ARGV[at + 1])]] = window
    for range = 1, ranges do
      window.zsets[range] = KEYS[key_at + range]
      window.borders[range - 1] = range > 1 and tonumber(ARGV[at + range]) or nil
    end
    key_at, at = key_at + ranges, at + ranges
  end
end
local KEYS, ARGV = script_keys, script_arguments

local call = redis.call
local commands = {}

function commands.ZADD(window, order, member)
  local range, value = 1, tonumber(order)
  while window.borders[range] and window.borders[range] <= value do
    range = range + 1
  end
  return call('ZADD', window.zsets[range], order, member)
end

function commands.ZREM(window, member)
  local removed = 0
  for _, zset in ipairs(window.zsets) do
    removed = removed + call('ZREM', zset, member)
  end
  return removed
end

function commands.ZSCORE(window, member)
  for _, zset in ipairs(window.zsets) do
    local order = call('ZSCORE', zset, member)
    if order then
      return order
    end
  end
  return false
end

function commands.ZRANK(window, member)
  local ahead = 0
  for _, zset in ipairs(window.zsets) do
    local rank = call('ZRANK', zset, member)
    if rank then
      return ahead + rank
    end
    ahead = ahead + call('ZCARD', zset)
  end
  return false
end

function commands.ZCARD(window)
  local size = 0
  for _, zset in ipairs(window.zsets) do
    size = size + call('ZCARD', zset)
  end
  return size
end

-- Count from the best entry on, as all scripts do. A range that ends ahead of the bound counts by its size
-- alone.
function commands.ZCOUNT(window, lowest, bound)
  assert(lowest == '-inf', 'counts begin at the best')
  local limit, size = tonumber((string.gsub(bound, '^%(', ''))), 0
  for range, zset in ipairs(window.zsets) do
    local border = window.borders[range]
    if border and border <= limit then
      size = size + call('ZCARD', zset)
    else
      return size + call('ZCOUNT', zset, '-inf', bound)
    end
  end
end

function commands.ZRANGE(window, from, to, ...)
  from, to = tonumber(from), tonumber(to)
  assert(from >= 0, 'ranks are counted from the best')
  local reply, ahead = {}, 0
  for _, zset in ipairs(window.zsets) do
    local size = call('ZCARD', zset)
    if to < ahead then
      break
    elseif from < ahead + size then
      for _, part in ipairs(call('ZRANGE', zset, math.max(0, from - ahead), to - ahead, ...)) do
        reply[#reply + 1] = part
      end
    end
    ahead = ahead + size
  end
  return reply
end

function commands.PEXPIREAT(window, at_ms)
  for _, zset in ipairs(window.zsets) do
    call('PEXPIREAT', zset, at_ms)
  end
end

-- The script's calls go through this table; a key that is no window goes to Redis as it is.
local redis = {
  sha1hex = redis.sha1hex,
  call = function(...)
    local name, key = ...
    local window = key and windows[key]
    if window then
      return commands[name](window, select(3, ...))
    end
    return call(...)
  end,
}
