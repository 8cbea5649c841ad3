"""Assembles a node's agent with its workload drivers. Imports neither Redis, SQL nor an object store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.edge.agent.cameras import Cameras
from app.edge.agent.driver import WorkloadDriver
from app.edge.agent.options import AgentOptions


def drivers(cameras: Cameras, media_server: str = "") -> Sequence[WorkloadDriver]:
    """The workloads that every node of this product can run.

    Args:
        media_server: the URL below which pictures are broadcast; empty: none.
    """
    from app.edge.joint.driver import JointDriver
    from app.edge.video.drivers import JobDriver, StageHostDriver
    from app.edge.video.source_probes import SourceProbes, probe_apart

    return (
        JointDriver(cameras, media_server),
        JobDriver(cameras, media_server, SourceProbes(probe_apart)),
        StageHostDriver(),
    )


def run_node(options: AgentOptions) -> None:
    """Runs until a signal ends it.

    Raises:
        CannotStart: The options or this machine do not allow it.
    """
    from app.edge.agent.program import run_agent

    cameras = Cameras(options.videos, options.sources)
    asyncio.run(run_agent(options, drivers(cameras, options.media_server), cameras))
