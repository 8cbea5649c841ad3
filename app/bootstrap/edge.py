"""Puts a node's agent together with what it can carry. Imports neither Redis, SQL nor an object store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.edge.agent.driver import WorkloadDriver
from app.edge.agent.options import AgentOptions


def drivers(options: AgentOptions) -> Sequence[WorkloadDriver]:
    """What every node of this product can run."""
    from app.edge.joint.driver import JointDriver
    from app.edge.video.drivers import JobDriver, StageHostDriver

    joint = JointDriver(options.sources, [source for _, source in options.videos])
    return (joint, JobDriver(options.videos), StageHostDriver())


def run_node(options: AgentOptions) -> None:
    """Until a signal ends it. Raises CannotStart and its kin."""
    from app.edge.agent.agent import run_agent

    asyncio.run(run_agent(options, drivers(options)))
