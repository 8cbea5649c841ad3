"""The limit: the same hops on raw Redis lists, nothing else. `python -m ops.benchmarks.raw_hops ROLE PORT`.

Per stage: block for a job, note its state, say done. The scheduler: block for a done, note the state, pass it on.
"""

from __future__ import annotations

import json
import sys

import redis

NEXT = {"onnx": "bie", "bie": "nef", "nef": ""}


def main() -> None:
    role, port = sys.argv[1], int(sys.argv[2])
    client = redis.Redis(port=port, db=5)
    while True:
        _, message = client.blpop([f"raw:{role}"], timeout=0)  # type: ignore[misc]
        if role == "done":
            job_id, step = json.loads(message)
            following = NEXT[step]
            client.hset(f"raw:job:{job_id}", "status", following or "COMPLETED")
            client.rpush(f"raw:{following}" if following else "raw:finished", job_id)
        else:
            job_id = message.decode()
            client.hset(f"raw:job:{job_id}", "stage", role)
            client.rpush("raw:done", json.dumps([job_id, role]))


if __name__ == "__main__":
    main()
