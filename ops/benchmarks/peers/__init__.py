"""The product beside other job systems: three stages that do nothing, one worker each, the same work in all.

Every stage notes the job's status in one HSET; the end is announced: by the product as always, by publishing, by the
others with an RPUSH that the client blocks on. Measured are one job on an idle system, 500 queued at once, memory and
idle CPU. The raw limit takes the same hops as the product (stage → done list → scheduler → next stage); the peers take
fewer, for none of them has a scheduler beside its stages: their stages hand on to each other.

Each system is started anew for each round, alone, with a Valkey server of its own that persists nothing, in turns of
changing order, so that a slow moment of the machine hits all alike. Each peer lives in a virtual environment of its own
under .venv-peers/, made on first use, with the versions pinned in systems.py and the same C parser (hiredis) as the
product where it uses redis-py. Their settings are those that their own documentation recommends for many short jobs:

celery   One `chain` of three tasks per job, results ignored; no gossip, mingle, heartbeat, events, rate limits or
         remote control. Prefetch multiplier 64, as its optimizing guide says of short tasks; celery-prefork-1, -4 (the
         default) and likewise celery-solo-1, -4 are there to be asked for with --only. Pools prefork and solo.
rq       Each stage enqueues the next, one round trip less than `depends_on`, which has the client enqueue three jobs;
         results are not kept. The default worker forks per job; SimpleWorker, which its guide recommends for jobs of
         milliseconds, does not.
saq      As it comes, with concurrency 1; each stage enqueues the next. A worker and its jobs share one event loop.
prefect  Background tasks (`task.delay` and task workers over a websocket), its way of least latency, with the server
         on SQLite; no UI, no logs to the server. Fewer jobs than the others, for time's sake; see systems.py.

The product pays for what the others do not do: a claim per stage, so that no job runs twice, and a change of the record
with a guard and a notification at every step. Its memory is that of whole workers: three of its processes are fork
servers that have the toolchain loaded, for which the peers' workers have nothing to set against.
"""

from ops.benchmarks.peers.command import main

__all__ = ["main"]
