#!lua name=topolog_2

-- Revision 1 of the text. Any change raises it: a text is never replaced by one of a lower revision.
--
-- The one write path of Topolog and the reads that must agree with it.
--
-- Every function checks everything first and writes last, because Redis keeps what a function wrote
-- before it failed. Subjects, counts and events are text: no function depends on pods, nodes or policies.
-- An expected outcome is a reply ({'CONFLICT', ...}), never an error.
--
-- The names of the functions contain the number of their schema: the functions of several schemas coexist
-- in a server that several clusters share, and each refuses the stores of other schemas. Arguments and
-- replies never change for a number; changes need the next schema.
-- Offsets and counts stay below 2^53. Epochs do not: they are compared as text, never as numbers.

local SCHEMA = '2'
local CHUNK = 1000 -- arguments per redis.call: unpack() has a limit, batches may not
local SESSION_SECONDS = 86400

-- The functions of schema 1 parse it as a number, and fail before they write.
local NO_HEAD = 'schema 2'

-- The number in a field of meta or of an entry; 0 if it is missing or another program overwrote it.
local function number(field)
  return tonumber(string.match(field or '', '^%d+$')) or 0
end

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

-- The `run_id` of this server: it changes with each restart, and with the promotion of a replica.
local run

local function server_run()
  run = run or string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')
  return run
end

-- The value of a mark among the arguments of append, nil if absent.
local function marked(argv, from, n, name)
  for place = from, from + 2 * n - 2, 2 do
    if argv[place] == name then
      return argv[place + 1]
    end
  end
end

-- The values of `n` fields of a hash; the fields are in argv, every `stride` places from `from`.
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

-- Whether a store has another schema; a store without an incarnation is empty and has none.
local function foreign(incarnation, schema)
  return incarnation and schema ~= SCHEMA
end

-- Whether incarnation `a` began after `b`, by the times that their ids start with.
local function later(a, b)
  return string.match(a, '^%x+%-') ~= nil and string.match(b, '^%x+%-') ~= nil and a > b
end

-- Whether the log still holds the entry at `offset` that was appended at `ms` ('' if not known).
local function holds(log, head, head_ms, offset, ms)
  if head < offset then
    return false
  end
  if ms == '' or offset == 0 then
    return true
  end
  if head == offset then
    return head_ms == ms
  end
  local id = text(offset) .. '-0'
  local entry = redis.call('XRANGE', log, id, id)[1]
  return entry == nil or entry[2][2] == ms -- trimmed: nothing to compare with
end

-- Records that events are lost: from then on reads and appends are refused until another incarnation
-- begins. `kept` is the last offset before `offset` that the log still holds according to the caller.
local function note_lost(meta, noted, incarnation, offset, kept)
  local known, upto, held = string.match(noted or '', '^(%S+) (%d+) (%d+)$')
  if known == incarnation then
    offset, kept = math.max(offset, tonumber(upto)), math.min(kept, tonumber(held))
  elseif known and not later(incarnation, known) then
    return
  end
  redis.call('HSET', meta, 'lost', table.concat({ incarnation, text(offset), text(kept) }, ' '))
end

-- Whether a writer is fenced: a later epoch has written, or another writer with the same epoch.
local function fenced(epoch, writer, stored, stored_writer)
  return epoch ~= '' and (lower(epoch, stored) or (epoch == stored and writer ~= stored_writer))
end

-- Appends a batch if its guard holds.
--
-- KEYS log, meta, versions, counts, session
-- ARGV incarnation, seen offset, its milliseconds or '', sequence, epoch or '', writer, expected head or '',
--      number of events, touched, expected, ceilings, increments, marks, and then of
--      events:     payload
--      touched:    subject, the last event of the batch about it (1..n; 0: the subject is gone)
--      expected:   subject, version (0: absent)
--      ceilings:   count key, maximum after this batch
--      increments: count key, increment
--      marks:      field of meta, value
-- Reply {'OK' | 'REPEATED', first offset, last offset, milliseconds} | {'SCHEMA', number}
--     | {'REWOUND', incarnation, head} | {'STALE', sequence} | {'FENCED', epoch, writer}
--     | {'CONFLICT', subject ...} | {'CEILING', key, count, maximum}
local function append(keys, argv)
  local log, meta, versions, counts, session = unpack(keys)
  local sequence, epoch, writer, wanted_head = argv[4], argv[5], argv[6], argv[7]
  local events, touched, expected = tonumber(argv[8]), tonumber(argv[9]), tonumber(argv[10])
  local ceilings, increments, marks = tonumber(argv[11]), tonumber(argv[12]), tonumber(argv[13])
  local at_events = 14
  local at_touched = at_events + events
  local at_expected = at_touched + 2 * touched
  local at_ceilings = at_expected + 2 * expected
  local at_increments = at_ceilings + 2 * ceilings
  local at_marks = at_increments + 2 * increments

  local state = redis.call('HMGET', meta, 'incarnation', 'offset', 'epoch', 'writer', 'at', 'lost',
    'schema', 'counts', 'run', 'kubernetes')
  if foreign(state[1], state[7]) or (state[1] and state[8] ~= counts) then
    return { 'SCHEMA', state[7] or '0' }
  end
  local head, seen = number(state[2]), tonumber(argv[2])
  if state[1] ~= argv[1] then
    return { 'REWOUND', state[1] or '', head }
  end
  local whole = holds(log, head, state[5], seen, argv[3])
  if not whole then
    note_lost(meta, state[6], argv[1], seen, seen - 1)
  end
  if state[6] or not whole then
    return { 'REWOUND', state[1], head }
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

  local stored = state[3] or ''
  -- If the server has restarted since a recorder verified the log, the end of the log may be missing:
  -- appends are refused until a recorder has verified it again. A new era of epochs may begin.
  local verified = marked(argv, at_marks, marks, 'run')
  local needed = verified or (not lower(stored, epoch) and state[9])
  local claimed = marked(argv, at_marks, marks, 'kubernetes')
  if (needed and needed ~= server_run()) or (claimed and state[10] and claimed ~= state[10]) then
    return { 'REWOUND', state[1], head }
  end
  if fenced(epoch, writer, stored, state[4] or '') then
    return { 'FENCED', stored, state[4] or '' }
  end

  local conflicts = { 'CONFLICT' }
  if wanted_head ~= '' and wanted_head ~= text(head) then
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

  if touched > 0 and expected == 0 then
    -- It is written, perhaps without being read: a key of another type fails here, before any write.
    values(versions, argv, at_touched, 2, 1)
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

  -- All conditions hold: only writes from here on.
  local now = redis.call('TIME')
  local at = text(tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000))
  local ids = {}
  for i = 1, events do
    ids[i] = text(head + i)
    redis.call('XADD', log, ids[i] .. '-0', 't', at, 'e', argv[at_events + i - 1], 'w', epoch)
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
  local fields = { 'offset', text(head + events) }
  if events > 0 then
    fields[3], fields[4] = 'at', at
  end
  if epoch ~= '' then
    for _, word in ipairs({ 'epoch', epoch, 'writer', writer, 'recorded', at }) do
      fields[#fields + 1] = word
    end
  end
  for place = at_marks, at_marks + 2 * marks - 1 do
    fields[#fields + 1] = argv[place]
  end
  write('HSET', meta, fields)
  redis.call('SET', session, table.concat({ sequence, text(head + 1), text(head + events), at }, ' '),
    'EX', SESSION_SECONDS)
  return { 'OK', head + 1, head + events, tonumber(at) }
end

-- Returns the entries behind an offset, verified to continue those that the reader has.
--
-- KEYS log, meta
-- ARGV incarnation, after, milliseconds of the entry at `after` ('' if not known), limit
-- Reply {'OK', head, milliseconds of the head, milliseconds, payload, milliseconds, payload, ...}
--     | {'REWOUND', incarnation, head} | {'TRIMMED', oldest offset} | {'GAP', missing offset}
--     | {'SCHEMA', number}
local function read(keys, argv)
  local log, meta = keys[1], keys[2]
  local known = argv[3]
  local state = redis.call('HMGET', meta, 'incarnation', 'offset', 'at', 'lost', 'schema')
  if foreign(state[1], state[5]) then
    return { 'SCHEMA', state[5] or '0' }
  end
  local head, after = number(state[2]), tonumber(argv[2])
  if state[1] ~= argv[1] or head < after or state[4] then
    return { 'REWOUND', state[1] or '', head }
  end
  if head == after then
    -- The same offset appended at another time: the tail was lost and has grown again.
    if known ~= '' and known ~= state[3] then
      return { 'REWOUND', state[1], head }
    end
    return { 'OK', head, number(state[3]) }
  end
  local overlap = known ~= '' and 1 or 0
  local first = after + 1 - overlap
  local entries = redis.call('XRANGE', log, text(first), '+', 'COUNT', argv[4] + overlap)
  if not entries[1] then
    return { 'GAP', first }
  end
  if entries[1][1] ~= text(first) .. '-0' then
    -- Without the entry that the reader names nothing shows that it has read this log: the tail may have been
    -- lost, have grown again, and have been trimmed since. A trim keeps the entry of the checkpoint.
    local oldest = redis.call('XRANGE', log, '-', '+', 'COUNT', 1)[1][1]
    if oldest == entries[1][1] then
      return { 'TRIMMED', tonumber(string.match(oldest, '^%d+')) }
    end
    return { 'GAP', first }
  end
  if overlap == 1 and entries[1][2][2] ~= known then
    return { 'REWOUND', state[1], head }
  end
  local n = #entries - overlap
  if n == 0 then
    return { 'GAP', after + 1 }
  end
  if entries[#entries][1] ~= text(after + n) .. '-0' then
    -- Ids rise by at least one: the first unexpected id follows the hole.
    for i = 1, n do
      if entries[overlap + i][1] ~= text(after + i) .. '-0' then
        return { 'GAP', after + i }
      end
    end
  end
  local reply = { 'OK', head, number(state[3]) }
  for i = overlap + 1, #entries do
    local fields = entries[i][2]
    reply[#reply + 1] = number(fields[2])
    reply[#reply + 1] = fields[4]
  end
  return reply
end

-- Records the loss of an entry that a reader had read, which all processes then see.
--
-- KEYS log, meta; ARGV incarnation, offset, its milliseconds or '', the last offset before it that is kept
-- Reply {'OK'} if the log holds it after all | {'REWOUND', incarnation, head} | {'SCHEMA', number}
local function doubt(keys, argv)
  local state = redis.call('HMGET', keys[2], 'incarnation', 'offset', 'at', 'lost', 'schema')
  if foreign(state[1], state[5]) then
    return { 'SCHEMA', state[5] or '0' }
  end
  local head, offset = number(state[2]), tonumber(argv[2])
  local here = state[1] == argv[1]
  if here and holds(keys[1], head, state[3], offset, argv[3]) then
    if not state[4] then
      return { 'OK' }
    end
  elseif here or (state[1] and later(argv[1], state[1])) then
    note_lost(keys[2], state[4], argv[1], offset, tonumber(argv[4]))
  end
  return { 'REWOUND', state[1] or '', head }
end

-- Begins a new incarnation on the remaining entries of the log; its first event describes the loss.
--
-- KEYS log, meta, versions, counts
-- ARGV incarnation found or '', the new one, the one that is known, epoch, writer, event, its subject
-- Reply {'OK', first offset, last offset, milliseconds} | {'CHANGED', incarnation} | {'FENCED', epoch, writer}
--     | {'SCHEMA', number}
local function rewind(keys, argv)
  local log, meta, versions, counts = unpack(keys)
  local epoch, writer = argv[4], argv[5]
  local state = redis.call('HMGET', meta, 'incarnation', 'offset', 'epoch', 'writer', 'schema')
  if foreign(state[1], state[5]) then
    return { 'SCHEMA', state[5] or '0' }
  end
  if (state[1] or '') ~= argv[1] then
    return { 'CHANGED', state[1] or '' }
  end
  if fenced(epoch, writer, state[3] or '', state[4] or '') then
    return { 'FENCED', state[3], state[4] or '' }
  end
  if not state[1] then
    redis.call('UNLINK', log, versions, counts)
    redis.call('HSET', meta, 'schema', SCHEMA, 'counts', counts, 'head', NO_HEAD)
  end
  redis.call('HMGET', versions, argv[7]) -- a key of another type fails here, before any write
  local now = redis.call('TIME')
  local at = text(tonumber(now[1]) * 1000 + math.floor(tonumber(now[2]) / 1000))
  local offset = state[1] and number(state[2]) + 1 or 1
  -- The head may have been lowered without the functions: entries that they wrote behind it are kept.
  local last = redis.call('XREVRANGE', log, '+', '-', 'COUNT', 1)[1]
  if last and last[2][1] == 't' and last[2][3] == 'e' then
    offset = math.max(offset, tonumber(string.match(last[1], '^%d+')) + 1)
  end
  redis.call('XADD', log, text(offset) .. '-0', 't', at, 'e', argv[6], 'w', epoch)
  redis.call('HSET', versions, argv[7], text(offset))
  -- Resume versions may be later than the lost events: all kinds must be listed again.
  for _, field in ipairs(redis.call('HKEYS', meta)) do
    if field == 'lost' or field == 'run' or string.sub(field, 1, 3) == 'rv:' then
      redis.call('HDEL', meta, field)
    end
  end
  redis.call('HSET', meta, 'incarnation', argv[2], 'former', argv[3], 'offset', text(offset), 'at', at)
  if epoch ~= '' then
    redis.call('HSET', meta, 'epoch', epoch, 'writer', writer, 'recorded', at)
  end
  return { 'OK', offset, offset, tonumber(at) }
end

-- Stores the position of a reader: entries that it has not read are not trimmed while it is alive.
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
--      milliseconds without a heartbeat after which a reader counts as dead; one that is dated as far ahead
--      was sent before the clock was set back
-- Reply {'OK', entries removed} | {'REWOUND', incarnation, head} | {'UNCOVERED', offset}
--     | {'HELD', reader, offset} | {'SCHEMA', number}
local function trim(keys, argv)
  local log, meta, checkpoints, readers = unpack(keys)
  local keep, from, patience = tonumber(argv[2]), tonumber(argv[3]), tonumber(argv[4])
  local state = redis.call('HMGET', meta, 'incarnation', 'offset', 'lost', 'schema')
  if foreign(state[1], state[4]) then
    return { 'SCHEMA', state[4] or '0' }
  end
  local head = number(state[2])
  if state[1] ~= argv[1] or head < from or state[3] then
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
    if offset == nil or math.abs(at - tonumber(seen)) > patience then
      dead[#dead + 1] = fields[i]
    elseif tonumber(offset) < keep then
      return { 'HELD', fields[i], tonumber(offset) }
    end
  end
  write('HDEL', readers, dead)
  return { 'OK', redis.call('XTRIM', log, 'MINID', '=', text(keep) .. '-0') }
end

-- A server whose memory is full refuses appends. It must still accept positions of readers, reports of
-- losses, and trimming, which frees memory.
local FULL = { 'allow-oom' }

redis.register_function('topolog_append_2', append)
redis.register_function { function_name = 'topolog_doubt_2', callback = doubt, flags = FULL }
redis.register_function { function_name = 'topolog_rewind_2', callback = rewind, flags = FULL }
redis.register_function { function_name = 'topolog_attend_2', callback = attend, flags = FULL }
redis.register_function { function_name = 'topolog_trim_2', callback = trim, flags = FULL }
redis.register_function { function_name = 'topolog_read_2', callback = read, flags = { 'no-writes' } }
