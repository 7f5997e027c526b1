#!lua name=topolog

-- The one write path of Topolog and the reads that must agree with it.
--
-- Every function checks everything first and writes last, because Redis keeps what a function wrote
-- before it failed. Nothing here knows pods, nodes or policies: subjects, counts and events are text.
-- An expected outcome is a reply ({'CONFLICT', ...}), never an error.
-- Offsets and counts stay below 2^53. Epochs do not: they are compared as text, never as numbers.

local CHUNK = 1000 -- arguments per redis.call: unpack() has a limit, batches may not
local SESSION_SECONDS = 86400

local function text(number)
  return string.format('%.0f', number)
end

-- Decimal strings without leading zeros, of any length.
local function lower(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

-- The values of `n` fields of a hash; the fields stand in argv, every `stride` places from `from`.
local function values(key, argv, from, stride, n)
  local found = {}
  for start = 0, n - 1, CHUNK do
    local fields = {}
    for i = start, math.min(start + CHUNK, n) - 1 do
      fields[#fields + 1] = argv[from + i * stride]
    end
    for _, value in ipairs(redis.call('HMGET', key, unpack(fields))) do
      found[#found + 1] = value
    end
  end
  return found
end

local function write(command, key, arguments)
  for from = 1, #arguments, CHUNK do
    redis.call(command, key, unpack(arguments, from, math.min(from + CHUNK - 1, #arguments)))
  end
end

-- Appends a batch if its guard holds.
--
-- KEYS log, meta, versions, counts, session
-- ARGV incarnation, seen offset, sequence, epoch or '', expected head or '',
--      number of events, touched, expected, ceilings, increments, marks, and then of
--      events:     payload
--      touched:    subject, which event of the batch touches it last (1..n; 0: it is gone)
--      expected:   subject, version (0: absent)
--      ceilings:   count key, maximum after this batch
--      increments: count key, by how much
--      marks:      field of meta, value
-- Reply {'OK' | 'REPEATED', first offset, last offset, milliseconds}
--     | {'REWOUND', incarnation, head} | {'STALE', sequence} | {'FENCED', epoch}
--     | {'CONFLICT', subject ...} | {'CEILING', key, count, maximum}
local function append(keys, argv)
  local log, meta, versions, counts, session = unpack(keys)
  local sequence, epoch = argv[3], argv[4]
  local events, touched, expected = tonumber(argv[6]), tonumber(argv[7]), tonumber(argv[8])
  local ceilings, increments, marks = tonumber(argv[9]), tonumber(argv[10]), tonumber(argv[11])
  local at_events = 12
  local at_touched = at_events + events
  local at_expected = at_touched + 2 * touched
  local at_ceilings = at_expected + 2 * expected
  local at_increments = at_ceilings + 2 * ceilings
  local at_marks = at_increments + 2 * increments

  local state = redis.call('HMGET', meta, 'incarnation', 'head', 'epoch')
  local head = tonumber(state[2] or '0')
  if state[1] ~= argv[1] or head < tonumber(argv[2]) then
    return { 'REWOUND', state[1] or '', head }
  end

  local last = redis.call('GET', session)
  if last then
    local done, first, upto, at = string.match(last, '^(%d+) (%d+) (%d+) (%d+)$')
    if done == sequence then
      return { 'REPEATED', tonumber(first), tonumber(upto), tonumber(at) }
    end
    if lower(sequence, done) then
      return { 'STALE', done }
    end
  end

  local stored = state[3] or '0'
  if epoch ~= '' and lower(epoch, stored) then
    return { 'FENCED', stored }
  end

  local conflicts = { 'CONFLICT' }
  if argv[5] ~= '' and argv[5] ~= text(head) then
    conflicts[2] = 'head'
  end
  for i, version in ipairs(values(versions, argv, at_expected, 2, expected)) do
    local place = at_expected + 2 * (i - 1)
    if (version or '0') ~= argv[place + 1] then
      conflicts[#conflicts + 1] = argv[place]
    end
  end
  if #conflicts > 1 then
    return conflicts
  end

  local raised, lifted, emptied, by = {}, {}, {}, {}
  for i, count in ipairs(values(counts, argv, at_increments, 2, increments)) do
    local key = argv[at_increments + 2 * (i - 1)]
    local total = tonumber(count or '0') + tonumber(argv[at_increments + 2 * i - 1])
    by[key] = total
    if total == 0 then
      emptied[#emptied + 1] = key
    else
      raised[#raised + 1] = key
      raised[#raised + 1] = text(total)
    end
  end
  for i, count in ipairs(values(counts, argv, at_ceilings, 2, ceilings)) do
    local key, ceiling = argv[at_ceilings + 2 * (i - 1)], argv[at_ceilings + 2 * i - 1]
    if (by[key] or tonumber(count or '0')) > tonumber(ceiling) then
      return { 'CEILING', key, tonumber(count or '0'), tonumber(ceiling) }
    end
  end

  -- Everything holds: from here on only writes.
  local now = redis.call('TIME')
  local at = text(tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000))
  local ids = {}
  for i = 1, events do
    ids[i] = text(head + i)
    redis.call('XADD', log, ids[i] .. '-0', 't', at, 'e', argv[at_events + i - 1])
  end
  local gone = {}
  for place = at_touched, at_expected - 1, 2 do
    if argv[place + 1] == '0' then
      gone[#gone + 1] = argv[place]
    else
      lifted[#lifted + 1] = argv[place]
      lifted[#lifted + 1] = ids[tonumber(argv[place + 1])]
    end
  end
  write('HSET', versions, lifted)
  write('HDEL', versions, gone)
  write('HSET', counts, raised)
  write('HDEL', counts, emptied)
  local fields = { 'head', text(head + events) }
  if events > 0 then
    fields[3], fields[4] = 'at', at
  end
  if epoch ~= '' and epoch ~= stored then
    fields[#fields + 1] = 'epoch'
    fields[#fields + 1] = epoch
  end
  for place = at_marks, at_marks + 2 * marks - 1 do
    fields[#fields + 1] = argv[place]
  end
  write('HSET', meta, fields)
  redis.call('SET', session, table.concat({ sequence, text(head + 1), text(head + events), at }, ' '),
    'EX', SESSION_SECONDS)
  return { 'OK', head + 1, head + events, tonumber(at) }
end

-- What lies behind an offset, proven to follow on what the reader has.
--
-- KEYS log, meta
-- ARGV incarnation, after, milliseconds of the entry at `after` ('' if not known), limit
-- Reply {'OK', head, milliseconds of the head, milliseconds, payload, milliseconds, payload, ...}
--     | {'REWOUND', incarnation, head} | {'TRIMMED', oldest offset} | {'GAP', offset that is missing}
local function read(keys, argv)
  local log, meta = keys[1], keys[2]
  local known = argv[3]
  local state = redis.call('HMGET', meta, 'incarnation', 'head', 'at')
  local head, after = tonumber(state[2] or '0'), tonumber(argv[2])
  if state[1] ~= argv[1] or head < after then
    return { 'REWOUND', state[1] or '', head }
  end
  if head == after then
    -- The same offset written at another time: the tail was lost and has grown again.
    if known ~= '' and known ~= state[3] then
      return { 'REWOUND', state[1], head }
    end
    return { 'OK', head, tonumber(state[3] or '0') }
  end
  local overlap = known ~= '' and 1 or 0
  local entries = redis.call('XRANGE', log, text(after + 1 - overlap), '+', 'COUNT', argv[4] + overlap)
  local skip = 0
  if overlap == 1 and entries[1] and entries[1][1] == argv[2] .. '-0' then
    if entries[1][2][2] ~= known then
      return { 'REWOUND', state[1], head }
    end
    skip = 1
  end
  local n = #entries - skip
  if n == 0 then
    return { 'GAP', after + 1 }
  end
  if entries[skip + 1][1] ~= text(after + 1) .. '-0' then
    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1][1]
    if oldest == entries[skip + 1][1] then
      return { 'TRIMMED', tonumber(string.match(oldest, '^%d+')) }
    end
    return { 'GAP', after + 1 }
  end
  if entries[#entries][1] ~= text(after + n) .. '-0' then
    -- Ids rise by at least one: the first that is not where it should be follows the hole.
    for i = 1, n do
      if entries[skip + i][1] ~= text(after + i) .. '-0' then
        return { 'GAP', after + i }
      end
    end
  end
  local reply = { 'OK', head, tonumber(state[3]) }
  for i = skip + 1, #entries do
    local fields = entries[i][2]
    reply[#reply + 1] = tonumber(fields[2])
    reply[#reply + 1] = fields[4]
  end
  return reply
end

-- The next epoch after the stored one, and stores it: two callers never get the same.
--
-- KEYS meta; ARGV incarnation; reply {'OK', epoch} | {'REWOUND', incarnation, head}
local function claim(keys, argv)
  local state = redis.call('HMGET', keys[1], 'incarnation', 'head', 'epoch')
  if state[1] ~= argv[1] then
    return { 'REWOUND', state[1] or '', tonumber(state[2] or '0') }
  end
  local front, nines = string.match(state[3] or '0', '^(%d-)(9*)$')
  if front == '' then
    front = '1'
  else
    front = string.sub(front, 1, -2) .. string.char(string.byte(front, -1) + 1)
  end
  local epoch = front .. string.rep('0', #nines)
  redis.call('HSET', keys[1], 'epoch', epoch)
  return { 'OK', epoch }
end

-- Notes how far a reader has come: what it has not read yet is not trimmed while it is alive.
--
-- KEYS readers; ARGV reader, offset ('' to leave); reply {'OK', milliseconds}
local function attend(keys, argv)
  local now = redis.call('TIME')
  local at = text(tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000))
  if argv[2] == '' then
    redis.call('HDEL', keys[1], argv[1])
  else
    redis.call('HSET', keys[1], argv[1], argv[2] .. ' ' .. at)
  end
  return { 'OK', tonumber(at) }
end

-- Removes the entries below an offset: never past a checkpoint, never under a reader that is alive.
--
-- KEYS log, meta, checkpoints, readers
-- ARGV incarnation, the oldest offset to keep, offset of the checkpoint to go on from,
--      milliseconds after which a reader that said nothing counts as dead
-- Reply {'OK', entries removed} | {'REWOUND', incarnation, head} | {'UNCOVERED', offset}
--     | {'HELD', reader, offset}
local function trim(keys, argv)
  local log, meta, checkpoints, readers = unpack(keys)
  local keep, from, patience = tonumber(argv[2]), tonumber(argv[3]), tonumber(argv[4])
  local state = redis.call('HMGET', meta, 'incarnation', 'head')
  local head = tonumber(state[2] or '0')
  if state[1] ~= argv[1] or head < from then
    return { 'REWOUND', state[1] or '', head }
  end
  if keep > from or redis.call('HEXISTS', checkpoints, argv[3]) == 0 then
    return { 'UNCOVERED', from }
  end
  local now = redis.call('TIME')
  local at = tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000)
  local fields = redis.call('HGETALL', readers)
  local dead = {}
  for i = 1, #fields, 2 do
    local offset, seen = string.match(fields[i + 1], '^(%d+) (%d+)$')
    if offset == nil or at - tonumber(seen) > patience then
      dead[#dead + 1] = fields[i]
    elseif tonumber(offset) < keep then
      return { 'HELD', fields[i], tonumber(offset) }
    end
  end
  write('HDEL', readers, dead)
  return { 'OK', redis.call('XTRIM', log, 'MINID', '=', text(keep) .. '-0') }
end

redis.register_function('topolog_append', append)
redis.register_function('topolog_attend', attend)
redis.register_function('topolog_trim', trim)
redis.register_function('topolog_claim', claim)
redis.register_function { function_name = 'topolog_read', callback = read, flags = { 'no-writes' } }
