"""The scripts of an index over records. Keys, below a prefix such as `jobs:index:`:

`dirty` hash of ids whose record changed since it was indexed, each with the number of its changes;
`docs` hash of id → what is indexed of it, JSON {"group", "terms", "words", "numbers"};
and for each group g: `g:t:<term>` set of ids, `g:w:<kind>:<word>` set of ids, `g:words` every end of every word in
order (`<kind>:<end>\\0<word>`), `g:ids` ids in order, `g:n:<number>` ids by number, +inf where a record has none.
"""

_ENTRIES = """
local function ends_of(word)
  local kind, text = string.match(word, '^([^:]*):(.*)$')
  local ends = {}
  for at = 1, #text do
    local byte = string.byte(text, at)
    if byte < 128 or byte > 191 then ends[#ends + 1] = kind .. ':' .. string.sub(text, at) .. '\\0' .. text end
  end
  return ends
end

local function remove(prefix, id, doc)
  local base = prefix .. doc.group .. ':'
  for _, term in ipairs(doc.terms) do redis.call('SREM', base .. 't:' .. term, id) end
  for _, word in ipairs(doc.words) do
    redis.call('SREM', base .. 'w:' .. word, id)
    if redis.call('EXISTS', base .. 'w:' .. word) == 0 then
      for _, part in ipairs(ends_of(word)) do redis.call('ZREM', base .. 'words', part) end
    end
  end
  for name, _ in pairs(doc.numbers) do redis.call('ZREM', base .. 'n:' .. name, id) end
  redis.call('ZREM', base .. 'ids', id)
end

local function add(prefix, id, doc)
  local base = prefix .. doc.group .. ':'
  for _, term in ipairs(doc.terms) do redis.call('SADD', base .. 't:' .. term, id) end
  for _, word in ipairs(doc.words) do
    if redis.call('SADD', base .. 'w:' .. word, id) == 1 and redis.call('SCARD', base .. 'w:' .. word) == 1 then
      for _, part in ipairs(ends_of(word)) do redis.call('ZADD', base .. 'words', 0, part) end
    end
  end
  for name, number in pairs(doc.numbers) do redis.call('ZADD', base .. 'n:' .. name, number, id) end
  redis.call('ZADD', base .. 'ids', 0, id)
end
"""

# ARGV: prefix, how many at most. Returns ids that are dirty, each followed by the count of its changes.
DIRTY = """
local prefix = ARGV[1]
local now = redis.call('TIME')[1]
for _, id in ipairs(redis.call('ZRANGEBYSCORE', prefix .. 'expires', '-inf', now, 'LIMIT', 0, ARGV[2])) do
  redis.call('HINCRBY', prefix .. 'dirty', id, 1)
  redis.call('ZREM', prefix .. 'expires', id)
end
return redis.call('HRANDFIELD', prefix .. 'dirty', ARGV[2], 'WITHVALUES')
"""

# ARGV: prefix, then for each record its id, the count of its changes that was known before it was read, and its doc
# ('' where there is none). One that changed meanwhile stays dirty, and as it was.
PUT = (
    _ENTRIES
    + """
local prefix = ARGV[1]
for at = 2, #ARGV, 3 do
  local id, text = ARGV[at], ARGV[at + 2]
  if redis.call('HGET', prefix .. 'dirty', id) == ARGV[at + 1] then
    redis.call('HDEL', prefix .. 'dirty', id)
    local old = redis.call('HGET', prefix .. 'docs', id)
    if old ~= text then
      if old then remove(prefix, id, cjson.decode(old)) end
      if text == '' then
        redis.call('HDEL', prefix .. 'docs', id)
      else
        add(prefix, id, cjson.decode(text))
        redis.call('HSET', prefix .. 'docs', id, text)
      end
    end
  end
end
"""
)

# KEYS: index of all records. ARGV: prefix, name of this form of the index. An index of another form, or none, is made
# anew: what there is of it goes, and all records are dirty. Returns 1 if it was so.
ADOPT = (
    _ENTRIES
    + """
local prefix = ARGV[1]
if redis.call('GET', prefix .. 'form') == ARGV[2] then return 0 end
local docs = redis.call('HGETALL', prefix .. 'docs')
for at = 1, #docs, 2 do remove(prefix, docs[at], cjson.decode(docs[at + 1])) end
redis.call('DEL', prefix .. 'docs')
for _, id in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do redis.call('HINCRBY', prefix .. 'dirty', id, 1) end
redis.call('SET', prefix .. 'form', ARGV[2])
return 1
"""
)

# ARGV: prefix of the group, JSON {"clauses", "sort", "is_descending", "offset", "limit"}, how many are few. A clause is
# a number {"number", "low", "high"} by the notation of ZRANGEBYSCORE, or {"any": [alternative …]}, an alternative being
# {"terms": […]} (any of them), {"id": its beginning} or {"kinds": […], "pieces": […]} (each piece in a word of a kind).
# Returns how many there are, and the ids of the page.
SEARCH = """
local base, plan = ARGV[1], cjson.decode(ARGV[2])
local FEW, STEP = tonumber(ARGV[3]), 500
local made = 0
local function fresh() made = made + 1; return base .. 'tmp:' .. made end
local function chunks(list, work)
  for at = 1, #list, STEP do work({unpack(list, at, math.min(at + STEP - 1, #list))}) end
end
local function union(keys)
  if #keys == 1 then return keys[1] end
  local into = fresh()
  chunks(keys, function(part) redis.call('SUNIONSTORE', into, into, unpack(part)) end)
  return into
end
local function words_with(kinds, piece)
  local keys, seen = {}, {}
  for _, kind in ipairs(kinds) do
    local start = kind .. ':' .. piece
    local is_whole = #piece == 1  -- one letter is part of nearly every word: it finds itself alone
    if is_whole then keys[#keys + 1] = base .. 'w:' .. start end
    local low, high = '[' .. start, '[' .. start .. '\\255'
    for _, part in ipairs(is_whole and {} or redis.call('ZRANGEBYLEX', base .. 'words', low, high)) do
      local key = base .. 'w:' .. kind .. ':' .. string.match(part, '%z(.*)$')
      if not seen[key] then seen[key] = true; keys[#keys + 1] = key end
    end
  end
  return union(keys)
end
local function resolved(alternative)
  if alternative.terms then
    local keys = {}
    for _, term in ipairs(alternative.terms) do keys[#keys + 1] = base .. 't:' .. term end
    return union(keys)
  end
  local into = fresh()
  if alternative.id then
    local low = '[' .. alternative.id
    chunks(redis.call('ZRANGEBYLEX', base .. 'ids', low, low .. '\\255'),
      function(part) redis.call('SADD', into, unpack(part)) end)
    return into
  end
  local keys = {}
  for _, piece in ipairs(alternative.pieces) do keys[#keys + 1] = words_with(alternative.kinds, piece) end
  if #keys == 1 then return keys[1] end
  redis.call('SINTERSTORE', into, unpack(keys))
  return into
end

local sort = base .. 'n:' .. plan.sort
local sets, ranges, all, wide = {}, {}, {sort}, nil
for _, clause in ipairs(plan.clauses) do
  local key
  local number = clause.number and base .. 'n:' .. clause.number
  if number and #plan.clauses == 1 and redis.call('ZCOUNT', number, clause.low, clause.high) > FEW then
    wide, key = clause, number
  elseif number then
    key = fresh()
    redis.call('ZRANGESTORE', key, number, clause.low, clause.high, 'BYSCORE')
    ranges[#ranges + 1] = key
  else
    local keys = {}
    for _, alternative in ipairs(clause.any) do keys[#keys + 1] = resolved(alternative) end
    key = union(keys)
    sets[#sets + 1] = key
  end
  all[#all + 1] = key
end

local page, offset, limit = {}, plan.offset, plan.limit

local function take(from, is_without, check)
  -- The members of `from` in order, those with the number first.
  local low, high = '-inf', '(+inf'
  if is_without then low, high = '+inf', '+inf' end
  local at = check and 0 or offset
  while #page < limit do
    local count = check and STEP or limit - #page
    local ids
    if plan.is_descending then ids = redis.call('ZRANGE', from, high, low, 'BYSCORE', 'REV', 'LIMIT', at, count)
    else ids = redis.call('ZRANGE', from, low, high, 'BYSCORE', 'LIMIT', at, count) end
    if #ids == 0 then return end
    at = at + #ids
    for _, id in ipairs(check and check(ids) or ids) do
      if check and offset > 0 then offset = offset - 1
      elseif #page < limit then page[#page + 1] = id end
    end
    if not check and #page < limit then return end
  end
end

local function accepted(ids)
  for _, set in ipairs(sets) do
    local is_in, kept = redis.call('SMISMEMBER', set, unpack(ids)), {}
    for at, id in ipairs(ids) do if is_in[at] == 1 then kept[#kept + 1] = id end end
    ids = kept
    if #ids == 0 then return ids end
  end
  for _, range in ipairs(ranges) do
    local scores, kept = redis.call('ZMSCORE', range, unpack(ids)), {}
    for at, id in ipairs(ids) do if scores[at] then kept[#kept + 1] = id end end
    ids = kept
    if #ids == 0 then return ids end
  end
  return ids
end

-- For a wide range that stands alone: its numbers are compared here, in place of a copy of it.
local function between(ids)
  local function bound(text)
    local is_open, number = string.match(text, '^(%(?)(.*)$')
    return tonumber(number) or (string.sub(number, 1, 1) == '-' and -math.huge or math.huge), is_open ~= ''
  end
  local low, is_low_open = bound(wide.low)
  local high, is_high_open = bound(wide.high)
  local scores, kept = redis.call('ZMSCORE', base .. 'n:' .. wide.number, unpack(ids)), {}
  for at, id in ipairs(ids) do
    local score = tonumber(scores[at]) or math.huge
    local is_above = score > low or (score == low and not is_low_open)
    if is_above and (score < high or (score == high and not is_high_open)) then kept[#kept + 1] = id end
  end
  return kept
end

local function size(key)
  return redis.call(redis.call('TYPE', key).ok == 'zset' and 'ZCARD' or 'SCARD', key)
end

local function narrowed()
  local into, arguments = fresh(), {#all, unpack(all)}
  arguments[#arguments + 1] = 'WEIGHTS'
  for at = 1, #all do arguments[#arguments + 1] = at == 1 and 1 or 0 end
  redis.call('ZINTERSTORE', into, unpack(arguments))
  return into
end

-- Few: they are brought together and sorted. Many: one goes along the order until the page is full.
local from, check, total = sort, nil, nil
local least = math.huge
for at = 2, #all do least = math.min(least, size(all[at])) end
if wide then
  total, check = redis.call('ZCOUNT', base .. 'n:' .. wide.number, wide.low, wide.high), between
elseif #all > 1 then
  local counted = least > FEW and redis.pcall('ZINTERCARD', #all, unpack(all))  -- since Redis 7
  if type(counted) == 'number' and counted > FEW then
    total, check = counted, accepted
  else
    from = narrowed()
  end
end
total = total or redis.call('ZCARD', from)
if total > offset then
  local with = redis.call('ZCOUNT', from, '-inf', '(+inf')
  if check or offset < with then take(from, false, check) end
  if not check then offset = math.max(0, offset - with) end
  if #page < limit then take(from, true, check) end
end
for at = 1, made do redis.call('UNLINK', base .. 'tmp:' .. at) end
return {total, unpack(page)}
"""
