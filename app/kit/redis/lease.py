"""A lease in Redis; it is lost when Redis restarts."""

from __future__ import annotations

import uuid

import redis

TAKE = """
local owner = redis.call('GET', KEYS[1])
if owner and owner ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1
"""
RENEW = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('PEXPIRE', KEYS[1], ARGV[2]) or 0"
RELEASE = "return redis.call('GET', KEYS[1]) == ARGV[1] and redis.call('DEL', KEYS[1]) or 0"


class RedisLease:
    """An `app.kit.lease.Lease`. Every method may raise redis.RedisError."""

    def __init__(self, client: redis.Redis, name: str, *, ttl_s: float) -> None:
        self.name = name
        self.ttl_s = ttl_s
        self.token = uuid.uuid4().hex
        self._take = client.register_script(TAKE)
        self._renew = client.register_script(RENEW)
        self._release = client.register_script(RELEASE)

    def take(self) -> bool:
        """True: it was free, or already ours."""
        return bool(self._take(keys=[self.name], args=[self.token, self._ttl_ms]))

    def renew(self) -> bool:
        """False: it is lost, and another process may have it."""
        return bool(self._renew(keys=[self.name], args=[self.token, self._ttl_ms]))

    def release(self) -> None:
        """Releases it unless another holder has it."""
        self._release(keys=[self.name], args=[self.token])

    @property
    def _ttl_ms(self) -> int:
        return int(self.ttl_s * 1000)
