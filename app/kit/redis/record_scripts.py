"""The scripts that change records: each is one round trip and one atomic step.

A record may belong to a group (for jobs, the owner) with its own set of active records. A change may include a message,
which the same step puts on its queue in the queues' own database. Keys of a kind k: `k:<id>` the record, `ks` all ids
by score, `ks:active` those not at their end, `ks:active:<group>`; `ks:index:dirty` counts the changes that an index has
not seen yet, see record_index_scripts.
"""

_USE = """
local used -- the database of the next call, if it is known
local function use(database)
  if database ~= used then redis.call('SELECT', database) end
  used = database
end
"""

ACKNOWLEDGE = (
    _USE
    + """
-- The call may end the work on a message. Then the keys from `first` on are the database of the queues, in which the
-- script is called, the set of messages that its receiver has fetched, their texts, and its id. Follows the writes that
-- a full server refuses.
local function acknowledge(first)
  if not KEYS[first] then return end
  use(KEYS[first])
  if redis.call('SREM', KEYS[first + 1], KEYS[first + 3]) > 0 then
    redis.call('HDEL', KEYS[first + 2], KEYS[first + 3])
  end
end
"""
)

_LETTER = """
-- message: {database, list, texts, id, text}; leaves the records' database
local function post(message)
  use(message[1])
  redis.call('HSET', message[3], message[4], message[5])
  redis.call('RPUSH', message[2], message[4])
end
"""

_GROUP = """
local function group_of(record, active, field)
  local value = field ~= '' and redis.call('HGET', record, field)
  return value and (active .. ':' .. value)
end
"""

_FULL = """
-- Answers 2 or 3 when there is no room. What is gone without a word is taken out of the group before it is refused.
local function is_full(active, group, prefix, most, most_in_group)
  if redis.call('ZCARD', active) >= tonumber(most) then return 2 end
  if redis.call('SCARD', group) < tonumber(most_in_group) then return 0 end
  for _, id in ipairs(redis.call('SMEMBERS', group)) do
    if redis.call('EXISTS', prefix .. id) == 0 then redis.call('SREM', group, id) end
  end
  return redis.call('SCARD', group) >= tonumber(most_in_group) and 3 or 0
end
"""

# KEYS: active index, group index. ARGV: prefix of a record's key, the two limits. Returns an Answer or 0.
LOOK = _FULL + "return is_full(KEYS[1], KEYS[2], unpack(ARGV))"

# KEYS: record, index of all, active index, group index. ARGV: score, id, prefix of a record's key, two limits ('' for
# none), the five parts of a message ('' for none), then field, value, ... Returns an Answer.
CREATE = (
    _FULL
    + _USE
    + _LETTER
    + """
if redis.call('EXISTS', KEYS[1]) == 1 then return 0 end
if ARGV[4] ~= '' then
  local full = is_full(KEYS[3], KEYS[4], ARGV[3], ARGV[4], ARGV[5])
  if full > 0 then return full end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 11))
redis.call('ZADD', KEYS[2], ARGV[1], ARGV[2])
redis.call('ZADD', KEYS[3], ARGV[1], ARGV[2])
if KEYS[4] then redis.call('SADD', KEYS[4], ARGV[2]) end
redis.call('HINCRBY', KEYS[2] .. ':index:dirty', ARGV[2], 1)
redis.call('PUBLISH', 'nudge:' .. KEYS[1], 'changed')
if ARGV[6] ~= '' then post({unpack(ARGV, 6, 10)}) end
return 1
"""
)

_STANDS = """
-- guards: fields, at least one; allowed: '|allowed|values|' of each
local function stands(record, guards, allowed)
  for i, value in ipairs(redis.call('HMGET', record, unpack(guards))) do
    if not value or not string.find(allowed[i], '|' .. value .. '|', 1, true) then return false end
  end
  return true
end
"""

# KEYS: record, active index, prefix of the index to tell ('' for none), a text beside the record to drop ('' for none),
# the message whose work this ends (ACKNOWLEDGE). ARGV: ttl in seconds ('' while the record is active), id, field of the
# group, a message in five parts ('' for none), the records' database, number of guards, their fields, what each allows
# ('|one|another|'), then field, value, ... Returns 1 if the record was changed.
CHANGE = (
    ACKNOWLEDGE
    + _GROUP
    + _LETTER
    + _STANDS
    + """
local guards = tonumber(ARGV[10])
local first = 11 + 2 * guards
use(ARGV[9])
if not stands(KEYS[1], {unpack(ARGV, 11, 10 + guards)}, {unpack(ARGV, 11 + guards, first - 1)}) then
  acknowledge(5)
  return 0
end
redis.call('HSET', KEYS[1], unpack(ARGV, first))
if ARGV[1] ~= '' then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
  redis.call('ZREM', KEYS[2], ARGV[2])
  local group = group_of(KEYS[1], KEYS[2], ARGV[3])
  if group then redis.call('SREM', group, ARGV[2]) end
end
if KEYS[3] ~= '' then
  redis.call('HINCRBY', KEYS[3] .. 'dirty', ARGV[2], 1)
  if ARGV[1] ~= '' then redis.call('ZADD', KEYS[3] .. 'expires', redis.call('TIME')[1] + ARGV[1], ARGV[2]) end
end
if KEYS[4] ~= '' then redis.call('UNLINK', KEYS[4]) end
redis.call('PUBLISH', 'nudge:' .. KEYS[1], ARGV[1] ~= '' and 'ended' or 'changed')
if ARGV[4] ~= '' then post({unpack(ARGV, 4, 8)}) end
acknowledge(5)
return 1
"""
)

CLAIM = (
    _STANDS
    + """
-- For a script that fetches messages: changes the records that these are about, each under its message's id, and
-- answers with those that it changed, the others empty. claim: database, prefix, number of guards, their fields, what
-- each allows, then field, value, ... It leaves the database of the queues, so it is the last thing that the script
-- does.
local function claimed(claim, ids, texts)
  local records = {}
  local first = 4 + 2 * claim[3]
  local guards, allowed = {unpack(claim, 4, 3 + claim[3])}, {unpack(claim, 4 + claim[3], first - 1)}
  redis.call('SELECT', claim[1])
  for i, id in ipairs(ids) do
    local record = claim[2] .. id
    records[i] = {}
    if texts[i] and stands(record, guards, allowed) then
      redis.call('HSET', record, unpack(claim, first))
      redis.call('PUBLISH', 'nudge:' .. record, 'changed')
      records[i] = redis.call('HGETALL', record)
    end
  end
  return records
end
"""
)

# KEYS: record, active index, index of all. ARGV: id, field of the group.
DELETE = (
    _GROUP
    + """
local group = group_of(KEYS[1], KEYS[2], ARGV[2])
if group then redis.call('SREM', group, ARGV[1]) end
redis.call('DEL', KEYS[1])
redis.call('ZREM', KEYS[2], ARGV[1])
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('HINCRBY', KEYS[3] .. ':index:dirty', ARGV[1], 1)
redis.call('PUBLISH', 'nudge:' .. KEYS[1], 'ended')
"""
)

# KEYS: record, worker, index of workers. ARGV: claim, ttl of the worker's sign of life in ms, its text, field, value,
# ... Returns 1 while the claim stands.
BEAT = """
redis.call('SET', KEYS[2], ARGV[3], 'PX', ARGV[2])
redis.call('ZADD', KEYS[3], redis.call('TIME')[1], KEYS[2])
if redis.call('HGET', KEYS[1], 'claim') ~= ARGV[1] then return 0 end
if #ARGV > 3 then
  redis.call('HSET', KEYS[1], unpack(ARGV, 4))
  redis.call('PUBLISH', 'nudge:' .. KEYS[1], 'progress')
end
return 1
"""

# KEYS: text. ARGV: cap in bytes, ttl in seconds, text. Returns the length afterwards.
APPEND = """
local size = redis.call('STRLEN', KEYS[1])
if size < tonumber(ARGV[1]) then
  size = redis.call('APPEND', KEYS[1], string.sub(ARGV[3], 1, ARGV[1] - size))
  redis.call('EXPIRE', KEYS[1], ARGV[2])
end
return size
"""
