"""How a node gets its token: from its options, from its last run, or by registration."""

from __future__ import annotations

import logging
from http import HTTPStatus

from app.edge.agent.options import AgentOptions
from app.edge.agent.store import AgentStore
from app.edge.agent.web_client import WebClient
from app.kit.cli.api_client import ApiError
from app.kit.cli.command import CannotStart

TOKEN = "token"  # noqa: S105  # the setting's name
REFUSED = (HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN)
logger = logging.getLogger(__name__)


class TokenRefused(CannotStart, code="NODE_TOKEN_REFUSED"):
    """The web does not know the token of this node, or requires an administrator's to register it."""


class NameTaken(CannotStart, code="NODE_NAME_TAKEN"):
    """The web has another node with this name."""


def initial_token(options: AgentOptions, store: AgentStore) -> str:
    """Returns the token from the options or the last run; empty if the node has to register itself.

    Raises:
        TokenRefused: It belongs to another node.
    """
    token = options.token or store.setting(TOKEN)
    parts = token.split("_")
    if len(parts) == 3 and parts[0] == "mn" and parts[1] != options.name:
        raise TokenRefused(f"this token is that of the node {parts[1]}, not of {options.name}")
    return token


async def join(web: WebClient, options: AgentOptions, store: AgentStore) -> None:
    """Make the web accept the node's token, registering the node if there is none, and store it.

    Raises:
        TokenRefused: The web knows neither the token nor this machine.
        NameTaken: Another node has this name.
        ApiError: The web answers with another error.
        Unreachable: Nothing answers.
    """
    if not web.token:
        await _register(web, options, store, replace=options.replace or store.was_damaged)
        return
    try:
        await web.check()
    except ApiError as error:
        if error.status not in REFUSED:
            raise
        if options.token:
            raise TokenRefused(
                f"{web.url} does not know this token of node {options.name}",
                hint="Its page /ui/nodes registers the node and shows a new one.",
            ) from error
        logger.warning("The web does not know the token that was kept here; the node registers itself anew.")
        await _register(web, options, store, replace=True)
    if options.token != store.setting(TOKEN) and options.token:
        store.remember(TOKEN, options.token)


async def _register(web: WebClient, options: AgentOptions, store: AgentStore, *, replace: bool) -> None:
    try:
        token = await web.register(options.name, options.side, replace=replace, admin_token=options.admin_token)
    except ApiError as error:
        if error.status == HTTPStatus.CONFLICT:
            raise NameTaken(
                f"there is a node {options.name} already",
                hint="Give its token with --token, choose another --name, or take the name over with --replace.",
            ) from error
        if error.status in (*REFUSED, HTTPStatus.NOT_FOUND):
            raise TokenRefused(
                f"{web.url} does not let this machine register itself as a node",
                hint="Set MODELMILL_TOKEN to an administrator's token, or register the node on the page /ui/nodes and "
                "give its token with --token or MODELMILL_NODE_TOKEN.",
            ) from error
        raise
    store.remember(TOKEN, token)
    web.token = token
    logger.info("Registered as node %s at %s.", options.name, web.url)
