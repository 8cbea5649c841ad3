"""The actors with stages that do nothing, and a trace of what their processes do. Its folder is in the environment."""

from __future__ import annotations

import os
from pathlib import Path

from ops.benchmarks.tracing import MarkActors, Trace

trace = Trace()
trace.install()

from ops.benchmarks import noop_actors  # noqa: E402  # its Redis connections must be traced from the first

noop_actors.actors.container.broker.add_middleware(MarkActors(trace, Path(os.environ["MODELMILL_BENCH_TRACE"])))
