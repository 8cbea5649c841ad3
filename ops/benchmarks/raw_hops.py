"""The limit: the same hops on raw Redis lists, nothing else. `python -m ops.benchmarks.raw_hops ROLE PORT [--keep]`.

Per stage: block for a job, note its state, say done. The scheduler: block for a done, note the state, pass it on. A
process that is killed loses the message that it has taken; with --keep it does not: the message moves to a list of its
process, and leaves it in one transaction with what follows from it.
"""

from __future__ import annotations

import json
import sys

import redis

NEXT = {"onnx": "bie", "bie": "nef", "nef": ""}


def main() -> None:
    role, port, is_kept = sys.argv[1], int(sys.argv[2]), "--keep" in sys.argv[3:]
    client = redis.Redis(port=port, db=5)
    while True:
        message = _taken(client, role, is_kept)
        if role == "done":
            job_id, step = json.loads(message)
            following = NEXT[step]
            client.hset(f"raw:job:{job_id}", "status", following or "COMPLETED")
            _pass_on(client, f"raw:{following}" if following else "raw:finished", job_id, role, message, is_kept)
        else:
            job_id = message.decode()
            client.hset(f"raw:job:{job_id}", "stage", role)
            _pass_on(client, "raw:done", json.dumps([job_id, role]), role, message, is_kept)


def _taken(client: redis.Redis, role: str, is_kept: bool) -> bytes:
    if is_kept:
        return client.blmove(f"raw:{role}", f"raw:{role}:kept", timeout=0)  # type: ignore[return-value]
    return client.blpop([f"raw:{role}"], timeout=0)[1]  # type: ignore[index,return-value]


def _pass_on(client: redis.Redis, queue: str, text: str, role: str, message: bytes, is_kept: bool) -> None:
    if not is_kept:
        client.rpush(queue, text)
        return
    with client.pipeline(transaction=True) as pipe:
        pipe.rpush(queue, text)
        pipe.lrem(f"raw:{role}:kept", 1, message)  # type: ignore[arg-type]
        pipe.execute()


if __name__ == "__main__":
    main()
