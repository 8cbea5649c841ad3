"""The command that starts a node's agent on its machine. Pure."""

from __future__ import annotations

from app.nodes.model import Node

TOKEN_VARIABLE = "MODELMILL_NODE_TOKEN"  # noqa: S105  # its name


def command_of(node: Node, token: str, web_url: str) -> str:
    """Returns the command, with the token in the environment: everybody on the machine can read arguments."""
    return f"{TOKEN_VARIABLE}={token} {plain_command(node.name, node.side.value, web_url)}"


def plain_command(name: str, side: str, web_url: str) -> str:
    return f"modelmill node --name {name} --side {side} --cloud {cloud_of(web_url)}"


def cloud_of(web_url: str) -> str:
    """Converts http://host to ws://host, and https:// to wss://."""
    return "ws" + web_url.removeprefix("http")
