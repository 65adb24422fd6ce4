"""Coordination on a Redis or Valkey server: each call is one script."""

from __future__ import annotations

import uuid
from typing import Final

from offprompt.protocols import Clock
from offprompt.stores._redis_connection import RedisServer
from offprompt.stores._redis_scripts import Script
from offprompt.stores.coordination import TINY_S, result_of

SLACK_MS: Final = 86_400_000
"""For so long the server keeps a key when its time is over by the caller's clock: only to clean up."""

TAKE: Final = Script("""#!lua
-- KEYS: the bucket; ARGV: now, how many at once, seconds for each, what times may differ by, milliseconds that
-- the server keeps it.
local now, limit, step = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local full = math.min(math.max(tonumber(redis.call('GET', KEYS[1]) or '0'), now), now + limit * step)
local wait = full - now - (limit - 1) * step
if wait > tonumber(ARGV[4]) then
  step = 0
else
  wait = 0
end
redis.call('SET', KEYS[1], string.format('%.17g', full + step), 'PX', ARGV[5])
return string.format('%.17g', wait)
""")

ONCE: Final = Script("""#!lua
-- KEYS: the work; ARGV: now, its digest, until when it is this caller's, milliseconds that the server keeps it, the
-- call's own name: sent again, since its answer was lost, it gets the same one.
local kept = redis.call('HMGET', KEYS[1], 'digest', 'until', 'result', 'call')
if kept[2] and tonumber(kept[2]) > tonumber(ARGV[1]) and kept[4] ~= ARGV[5] then
  return kept
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'digest', ARGV[2], 'until', ARGV[3], 'call', ARGV[5])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {}
""")

FINISH: Final = Script("""#!lua
-- KEYS: the work; ARGV: its digest, until when the result is kept, milliseconds that the server keeps it, the result
-- if there is one.
local kept = redis.call('HMGET', KEYS[1], 'digest', 'result')
if kept[1] ~= ARGV[1] or kept[2] then
  return
end
if ARGV[4] then
  redis.call('HSET', KEYS[1], 'until', ARGV[2], 'result', ARGV[4])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
else
  redis.call('DEL', KEYS[1])
end
""")

LEASE: Final = Script("""#!lua
-- KEYS: the lease, the number of the newest; ARGV: now, the holder, until when, milliseconds that the server keeps it.
local kept = redis.call('HMGET', KEYS[1], 'holder', 'until', 'number')
local held = kept[2] and tonumber(kept[2]) > tonumber(ARGV[1])
if held and kept[1] ~= ARGV[2] then
  return false
end
local number = held and kept[3] or redis.call('INCR', KEYS[2])
redis.call('HSET', KEYS[1], 'holder', ARGV[2], 'until', ARGV[3], 'number', number)
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return tonumber(number)
""")

RELEASE: Final = Script("""#!lua flags=allow-oom
-- KEYS: the lease; ARGV: the holder.
if redis.call('HGET', KEYS[1], 'holder') == ARGV[1] then
  redis.call('DEL', KEYS[1])
end
""")


class RedisCoordinator:
    """Coordinator on one server. Numbers of leases come from one count, so that no key has to be kept for them."""

    def __init__(self, server: RedisServer, clock: Clock) -> None:
        self._server, self._clock = server, clock

    def take(self, key: str, *, limit: int, per_s: float) -> float:
        """See Coordinator."""
        args = (repr(self._clock.now()), limit, repr(1 / per_s), repr(TINY_S), _kept_ms(limit / per_s))
        return float(self._server.run(TAKE, [self._key("rate", key)], args))

    def once(self, key: str, digest: str, *, seconds: float) -> str | None:
        """See Coordinator."""
        now = self._clock.now()
        args = (repr(now), digest, repr(now + seconds), _kept_ms(seconds), uuid.uuid4().hex)
        kept = self._server.run(ONCE, [self._key("once", key)], args)
        if not kept:
            return None
        was, until, result, _ = kept
        return result_of(key, digest, was.decode(), None if result is None else result.decode(), float(until) - now)

    def finish(self, key: str, digest: str, result: str | None, *, ttl_s: float) -> None:
        """See Coordinator."""
        until = repr(self._clock.now() + ttl_s)
        args = (digest, until, _kept_ms(ttl_s), *([result] if result is not None else []))
        self._server.run(FINISH, [self._key("once", key)], args)

    def lease(self, key: str, holder: str, *, seconds: float) -> int | None:
        """See Coordinator."""
        now = self._clock.now()
        keys = [self._key("lease", key), f"{self._server.url.prefix}:leases"]
        return self._server.run(LEASE, keys, (repr(now), holder, repr(now + seconds), _kept_ms(seconds)))

    def release(self, key: str, holder: str) -> None:
        """See Coordinator."""
        self._server.run(RELEASE, [self._key("lease", key)], (holder,))

    def _key(self, kind: str, key: str) -> str:
        return f"{self._server.url.prefix}:{kind}:{key}"


def _kept_ms(seconds: float) -> int:
    return int(seconds * 1000) + SLACK_MS
