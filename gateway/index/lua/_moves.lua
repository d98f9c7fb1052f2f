-- Versions of the pages and the moves between them, shared by the scripts that name this file in `include`. The
-- list of moves has the newest version first, and behind each version the moves that made it of the next one.
-- A move is `<window> <player> <1 if the name is another> <old order> <old member> <order> <member>`, with `-`
-- for what there is not, and the moves of one call are lines.

local function or_none(value)
  return value ~= '' and value or '-'
end

local function move_of(window, player, name, stored_name, was_order, was_member, order, member)
  local is_renamed = name ~= '' and name ~= stored_name
  -- A member whose entry is gone left nothing behind.
  local was = was_order ~= '' and was_member or ''
  local now = order ~= '' and member or ''
  return table.concat({ window, player, is_renamed and '1' or '0', or_none(was_order), or_none(was),
    or_none(order), or_none(now) }, ' ')
end

-- Name the pages after some moves. The name is made of the one before and of all that changed: equal names mean
-- equal pages, even where a failover lost the newest of them. Versions of many moves are remembered for as many
-- fewer changes.
local function name_next_version(version, before, moves, lines, facts)
  if redis.call('LINDEX', moves, 0) ~= before then
    redis.call('DEL', moves)
    redis.call('LPUSH', moves, before)
  end
  local text = table.concat(lines, '\n')
  local after = string.sub(redis.sha1hex(table.concat({ before, text, facts }, '\n')), 1, 16)
  redis.call('LPUSH', moves, text, after)
  redis.call('LTRIM', moves, 0, 2 * math.min(256, math.ceil(1024 / #lines)))
  redis.call('PEXPIRE', moves, 60000)
  redis.call('SET', version, after)
end
