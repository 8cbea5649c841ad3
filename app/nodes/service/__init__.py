"""The verbs of nodes: register, report, order, acknowledge."""

from app.nodes.service.nodes import NodeListeners, Nodes, Nudge, OnChange, SecretHashing

__all__ = ["NodeListeners", "Nodes", "Nudge", "OnChange", "SecretHashing"]
