"""What Redis runs as one step: reading, committing, asking what became of a commit, and coordination."""

from __future__ import annotations

from dataclasses import dataclass, field
from hashlib import sha1
from typing import Final


@dataclass(frozen=True, slots=True)
class Script:
    """A Lua script; Redis knows it by its digest."""

    text: str
    sha: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "sha", sha1(self.text.encode(), usedforsecurity=False).hexdigest())


READ: Final = Script("""#!lua flags=no-writes
-- KEYS: an owner's revision and a key, for each thing asked; ARGV: how, and a field. All of it at one moment.
local found = {}
for i = 1, #KEYS / 2 do
  local key, how, field, what = KEYS[2 * i], ARGV[2 * i - 1], ARGV[2 * i], nil
  if how == 'one' then
    what = redis.call('HGET', key, field)
  elseif how == 'all' then
    what = redis.call('HGETALL', key)
  elseif how == 'names' then
    what = redis.call('HKEYS', key)
  else
    what = redis.call('SMEMBERS', key)
  end
  found[i] = {redis.call('GET', KEYS[2 * i - 1]) or '', what}
end
return found
""")
"""[revision, reply] of each."""

OWNERS: Final = Script("""#!lua flags=no-writes
-- KEYS: an owner's revision and the set of its scopes, for each owner; ARGV: agent and session wanted ('' for any),
-- then what the keys of each owner begin with. All slots of an owner's scopes that have them.
local found = {}
for i = 1, #KEYS / 2 do
  local scopes = {}
  for _, sub in ipairs(redis.call('SMEMBERS', KEYS[2 * i])) do
    local agent, session = string.match(sub, '^[^/]*/([^/]*)/([^/]*)$')
    if (ARGV[1] == '' or ARGV[1] == agent) and (ARGV[2] == '' or ARGV[2] == session) then
      scopes[#scopes + 1] = {sub, redis.call('HGETALL', ARGV[2 + i] .. 'slots:' .. sub)}
    end
  end
  found[i] = {redis.call('GET', KEYS[2 * i - 1]) or '', scopes}
end
return found
""")
"""[revision, [[scope, fields and values], ...]] of each owner."""

OVER: Final = Script("""#!lua flags=no-writes
-- KEYS: an app's slots by expiry, and those hidden by the time of it; ARGV: now and the latest time of hiding, by the
-- caller's clock, how many at most, what owners' keys begin with.
local found = {}
for i = 1, 2 do
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', KEYS[i], '-inf', ARGV[i], 'LIMIT', 0, ARGV[3])) do
    local owner = string.match(member, '^[^\\n]*')
    found[#found + 1] = {member, redis.call('GET', ARGV[4] .. '{' .. owner .. '}:rev') or ''}
  end
end
return found
""")
"""[place, revision of its owner] of each."""

_COMMIT = """
-- KEYS: the writer, the log, then what the plan speaks of by number. ARGV: the commit's number and id, then the plan:
-- five lists, each behind its length: revisions that must still be; owners that change; commands; scopes that may be
-- empty now; events.
local told, number = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if told >= number then
  return told == number and 'done' or 'void'
end
local at = 2
local function word()
  at = at + 1
  return ARGV[at]
end
local function key()
  return KEYS[tonumber(word())]
end
for _ = 1, tonumber(word()) do
  local revision = redis.call('GET', key()) or ''
  if revision ~= word() then
    return 'stale'
  end
end
local changed = {}
for i = 1, tonumber(word()) do
  changed[i] = key()
end
-- A script that fails half-way leaves what it did: what could fail is looked at before.
local types = {HSET = 'hash', HDEL = 'hash', ZADD = 'zset', ZREM = 'zset', SADD = 'set'}
local function check(name, wanted)
  local is = redis.call('TYPE', name).ok
  if is ~= wanted and is ~= 'none' then
    error({err = 'WRONGTYPE ' .. name .. ' is a ' .. is .. ', not a ' .. wanted})
  end
end
check(KEYS[2], 'stream')
local commands = {}
for i = 1, tonumber(word()) do
  local command = {word(), key()}
  check(command[2], types[command[1]])
  for j = 1, tonumber(word()) do
    command[2 + j] = word()
  end
  commands[i] = command
end
for _, command in ipairs(commands) do
  redis.call(unpack(command))
end
for _, revision in ipairs(changed) do
  redis.call('SET', revision, ARGV[2])
end
for _ = 1, tonumber(word()) do
  local slots, scopes, sub, owners, tag, revision = key(), key(), word(), key(), word(), key()
  if redis.call('EXISTS', slots) == 0 then
    redis.call('SREM', scopes, sub)
    if redis.call('EXISTS', scopes) == 0 then
      redis.call('SREM', owners, tag)
      redis.call('DEL', revision)
    end
  end
end
for _ = 1, tonumber(word()) do
  redis.call('XADD', KEYS[2], '*', 'e', word())
end
redis.call('SET', KEYS[1], ARGV[1], 'EX', 86400)
return 'done'
"""

COMMIT: Final = Script("#!lua" + _COMMIT)
"""`done`, `stale` (what was read is not so any more), or `void` (given up before). All or nothing."""

COMMIT_LESS: Final = Script("#!lua flags=allow-oom" + _COMMIT)
"""COMMIT of what makes the store smaller, which a full server takes too."""

SETTLE: Final = Script("""#!lua flags=allow-oom
-- KEYS: the writer; ARGV: a commit's number. Whether it was done; if not, it never will be.
local told, number = tonumber(redis.call('GET', KEYS[1]) or '0'), tonumber(ARGV[1])
if told < number then
  redis.call('SET', KEYS[1], number + 1, 'EX', 86400)
end
return told == number and 1 or 0
""")
