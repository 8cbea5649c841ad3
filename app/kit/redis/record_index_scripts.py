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
# ('' if there is none). One that changed meanwhile stays dirty, and as it was.
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
# again: what there is of it goes, and all records are dirty. Returns 1 if it was so.
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
local FEW, STEP, MANY = tonumber(ARGV[3]), 500, 8
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
  return keys
end
local function sets_of(alternative)  -- it finds what is in any of these
  if alternative.terms then
    local keys = {}
    for _, term in ipairs(alternative.terms) do keys[#keys + 1] = base .. 't:' .. term end
    return keys
  end
  if alternative.id then
    local into, low = fresh(), '[' .. alternative.id
    chunks(redis.call('ZRANGEBYLEX', base .. 'ids', low, low .. '\\255'),
      function(part) redis.call('SADD', into, unpack(part)) end)
    return {into}
  end
  if #alternative.pieces == 1 then return words_with(alternative.kinds, alternative.pieces[1]) end
  local keys, into = {}, fresh()
  for _, piece in ipairs(alternative.pieces) do keys[#keys + 1] = union(words_with(alternative.kinds, piece)) end
  redis.call('SINTERSTORE', into, unpack(keys))
  return {into}
end

local sort = base .. 'n:' .. plan.sort
local size = redis.call('ZCARD', sort)
local page, offset, limit, total = {}, plan.offset, plan.limit, 0
local clauses, sets, ranges = {}, {}, {}
for _, clause in ipairs(plan.clauses) do
  local one = {low = clause.low, high = clause.high}
  if clause.number then
    one.key = base .. 'n:' .. clause.number
    one.count = redis.call('ZCOUNT', one.key, one.low, one.high)
  else
    one.keys, one.count = {}, 0
    for _, alternative in ipairs(clause.any) do
      for _, key in ipairs(sets_of(alternative)) do
        local count = redis.call('SCARD', key)
        if count > 0 then one.keys[#one.keys + 1], one.count = key, one.count + count end
      end
    end
  end
  local is_all = one.count == size and (one.low or #one.keys == 1)  -- whatever fits the others fits it, too
  if not is_all then clauses[#clauses + 1] = one end
  if not is_all and one.low then ranges[#ranges + 1] = one end
end
table.sort(clauses, function(one, other) return one.count < other.count end)
-- Of the rarest the matches are brought together; of the others only where there are many sets to look into.
for at, one in ipairs(clauses) do
  if one.keys and (at == 1 or #one.keys < 2 or #one.keys > MANY) then
    one.key = union(one.keys)
    one.count = redis.call('SCARD', one.key)
    sets[#sets + 1] = one
  end
end
local first = clauses[1]

local function bound(text)
  local is_open, number = string.match(text, '^(%(?)(.*)$')
  return tonumber(number) or (string.sub(number, 1, 1) == '-' and -math.huge or math.huge), is_open ~= ''
end
for _, one in ipairs(ranges) do
  one.least, one.is_low_open = bound(one.low)
  one.most, one.is_high_open = bound(one.high)
end
local function is_inside(one, score)
  local number = tonumber(score) or math.huge
  local is_above = number > one.least or (number == one.least and not one.is_low_open)
  return is_above and (number < one.most or (number == one.most and not one.is_high_open))
end

-- Those of these that every clause accepts; `from` need not be asked, nor what the ids were taken by.
local function accepted(ids, from)
  for _, one in ipairs(clauses) do
    if #ids == 0 then return ids end
    if one ~= from and not one.is_done then
      local kept = {}
      if one.low then
        local scores = redis.call('ZMSCORE', one.key, unpack(ids))
        for at, id in ipairs(ids) do if is_inside(one, scores[at]) then kept[#kept + 1] = id end end
      else
        local is_in = {}
        for _, key in ipairs(one.key and {one.key} or one.keys) do
          for at, is_there in ipairs(redis.call('SMISMEMBER', key, unpack(ids))) do
            if is_there == 1 then is_in[at] = true end
          end
        end
        for at, id in ipairs(ids) do if is_in[at] then kept[#kept + 1] = id end end
      end
      ids = kept
    end
  end
  return ids
end

local function ranked(from, start, stop)
  if plan.is_descending then return redis.call('ZRANGE', from, start, stop, 'REV') end
  return redis.call('ZRANGE', from, start, stop)
end
local function parts(from)  -- ranks, in the order of the page: those with the number first
  local all, without = redis.call('ZCARD', from), redis.call('ZCOUNT', from, '+inf', '+inf')
  if plan.is_descending then return {{without, all - 1}, {0, without - 1}} end
  return {{0, all - without - 1}, {all - without, all - 1}}
end
local function take(from)
  for _, part in ipairs(parts(from)) do
    local length, start = part[2] - part[1] + 1, part[1] + offset
    if offset >= length then
      offset = offset - length
    elseif #page < limit then
      local stop = math.min(part[2], start + limit - #page - 1)
      for _, id in ipairs(ranked(from, start, stop)) do page[#page + 1] = id end
      offset = 0
    end
  end
end

-- Goes along the order until the page is full, or all is counted; false where that took more than so many steps.
local function walk(from, most, is_counted)
  local walked = 0
  for _, part in ipairs(parts(from)) do
    local at = part[1]
    while at <= part[2] and (is_counted or #page < limit) do
      if walked >= most then return false end
      local ids = ranked(from, at, math.min(at + STEP - 1, part[2]))
      at, walked = at + #ids, walked + #ids
      for _, id in ipairs(accepted(ids)) do
        if is_counted then total = total + 1 end
        if offset > 0 then offset = offset - 1
        elseif #page < limit then page[#page + 1] = id end
      end
    end
  end
  return true
end

local function narrowed(keys)  -- what is in all of them, by the numbers of the first
  local into, arguments = fresh(), {#keys, unpack(keys)}
  arguments[#arguments + 1] = 'WEIGHTS'
  for at = 1, #keys do arguments[#arguments + 1] = at == 1 and 1 or 0 end
  redis.call('ZINTERSTORE', into, unpack(arguments))
  return into
end
local function as_key(one)
  if not one.low then return one.key end
  local into = fresh()
  redis.call('ZRANGESTORE', into, one.key, one.low, one.high, 'BYSCORE')
  return into
end

-- Of `count` matches the page is full after a short walk where they are many, and brought together and sorted where
-- they are few. Where they all lie at the far end a walk is given up when it has cost as much as that.
local function fill(count, together)
  local is_dense = count * 4 > size
  local is_near = (offset + limit) * size * 4 < count * count
  if count == 0 or ((is_dense or is_near) and walk(sort, is_dense and size or count)) then return end
  page, offset = {}, plan.offset
  take(narrowed({sort, together()}))
end

local function below(one)  -- how many numbers are too low for it
  local low = string.sub(one.low, 1, 1) == '(' and string.sub(one.low, 2) or '(' .. one.low
  return redis.call('ZCOUNT', one.key, '-inf', low)
end
local function through(one, start, stop, work)  -- the ids of these ranks
  for at = start, stop, STEP do work(redis.call('ZRANGE', one.key, at, math.min(at + STEP - 1, stop))) end
end

-- Counts what all accept by going through the rarest, and keeps it where it is not most of all there is.
local function counted_by_members()
  local into, count = fresh(), 0
  local function add(ids)
    ids = accepted(ids, first)
    count = count + #ids
    if #ids > 0 and count * 4 <= size then redis.call('SADD', into, unpack(ids)) end
  end
  if first.low then
    local start = below(first)
    through(first, start, start + first.count - 1, add)
  else
    chunks(redis.call('SMEMBERS', first.key), add)
  end
  return count, into
end

-- Where most fit, fewer do not: what lies outside of the ranges is taken off what the sets, or else the rarest range,
-- have in common. nil where that would be no less work.
local function counted_by_outsides()
  local keys, cost, rest = {}, 0, {}
  for at, one in ipairs(sets) do keys[at] = one.key end
  for at, one in ipairs(ranges) do
    if #keys > 0 or one ~= first then
      rest[#rest + 1], cost = one, cost + size - one.count
    end
  end
  if #keys + #ranges < #clauses or cost > first.count then return nil end
  local count = #keys == 1 and sets[1].count or first.count
  if #keys > 1 then count = redis.pcall('SINTERCARD', #keys, unpack(keys)) end  -- since Redis 7
  if type(count) ~= 'number' then return nil end
  for _, one in ipairs(rest) do one.is_done = true end
  for _, one in ipairs(rest) do
    local function take_off(ids) count = count - #accepted(ids) end
    local start = below(one)
    through(one, 0, start - 1, take_off)
    through(one, start + one.count, size - 1, take_off)
    one.is_done = false
  end
  return count
end

if #clauses == 0 then
  total = size
  take(sort)
elseif #clauses == 1 and first.low and first.key == sort then
  total = first.count
  if plan.is_descending then
    page = redis.call('ZRANGE', sort, first.high, first.low, 'BYSCORE', 'REV', 'LIMIT', offset, limit)
  else
    page = redis.call('ZRANGE', sort, first.low, first.high, 'BYSCORE', 'LIMIT', offset, limit)
  end
elseif #clauses == 1 then
  total = first.count
  fill(total, function() return as_key(first) end)
elseif first.count <= FEW then
  local keys, done = {sort}, #sets
  if first.low then
    keys[2], first.is_done, done = as_key(first), true, done + 1
  end
  for _, one in ipairs(sets) do
    keys[#keys + 1], one.is_done = one.key, true
  end
  local from = narrowed(keys)
  if done < #clauses then
    walk(from, math.huge, true)
  else
    total = redis.call('ZCARD', from)
    take(from)
  end
else
  local into
  total = counted_by_outsides()
  if not total then total, into = counted_by_members() end
  fill(total, function()
    return into or select(2, counted_by_members())
  end)
end
for at = 1, made do redis.call('UNLINK', base .. 'tmp:' .. at) end
return {total, unpack(page)}
"""
