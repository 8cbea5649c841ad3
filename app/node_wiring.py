"""Puts a node's agent together with what it can carry. Imports neither Redis, SQL nor an object store."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from app.nodes.agent.carrier import Carrier
from app.nodes.agent.options import AgentOptions


def carriers(options: AgentOptions) -> Sequence[Carrier]:
    """What every node of this product can run."""
    from app.joint_inference.carrier import JointCarrier
    from app.video.carrier import JobCarrier, ServicesCarrier

    joint = JointCarrier(options.sources, [source for _, source in options.videos])
    return (joint, JobCarrier(options.videos), ServicesCarrier())


def run_node(options: AgentOptions) -> None:
    """Until a signal ends it. Raises CannotStart and its kin."""
    from app.nodes.agent.agent import run_agent

    asyncio.run(run_agent(options, carriers(options)))
