"""The verbs of nodes: register, report, order, acknowledge."""

from app.nodes.service.nodes import Hashing, Nodes, Nudge, OnChange

__all__ = ["Hashing", "Nodes", "Nudge", "OnChange"]
