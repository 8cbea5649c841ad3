"""The verbs of nodes: register, report, order, acknowledge."""

from app.nodes.service.nodes import Hashing, NodeListeners, Nodes, Nudge, OnChange

__all__ = ["Hashing", "NodeListeners", "Nodes", "Nudge", "OnChange"]
