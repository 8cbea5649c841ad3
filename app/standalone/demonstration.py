"""Shared code of demonstrations on a running product: they last until ended, and nothing of them remains."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from http import HTTPStatus

from rich.console import Console

from app.kit.cli.command import Exit, signals_end
from app.kit.errors import ModelmillError
from app.model_registry.client import ModelsClient
from app.nodes.client import NodesClient

CONSOLE = Console()
Say = Callable[[str], None]


def run_until_ended(demonstrate: Callable[[Say], Exit], *, is_once: bool) -> Exit:
    """A demonstration with processes of its own, which ends with them, by itself or by SIGTERM or Ctrl-C.

    Args:
        demonstrate: called with a function that prints a line; has ended its processes when it returns or raises.
        is_once: it was to end by itself, so that interrupting it is not its usual end.
    """
    with signals_end():
        try:
            return demonstrate(say)
        except KeyboardInterrupt:
            return Exit.CANCELLED if is_once else Exit.OK
        finally:
            say("Everything is stopped.")


def say(text: str) -> None:
    """Print a line, as it is."""
    CONSOLE.print(text, markup=False, highlight=False, soft_wrap=True)


def until_ended(demonstrate: Callable[[Say], None], remove: Callable[[Say], None], farewell: str) -> Exit:
    """Demonstrate until SIGTERM or Ctrl-C. Everything it has created is removed, however it ends.

    Args:
        demonstrate: called with a function that prints a line.
        remove: removes everything that it creates; called with a function that prints a line.
        farewell: the line printed before that.
    """
    with signals_end(), suppress(KeyboardInterrupt):
        try:
            demonstrate(say)
        finally:
            say(farewell)
            remove(say)
    return Exit.OK


def remove_models_and_nodes(url: str, models: Iterable[str], nodes: Iterable[str], say: Say) -> None:
    """Removes the models and nodes of a demonstration that exist; see `remove_each`.

    Args:
        url: of the product.
        models: names.
        nodes: names.
        say: prints a line.
    """
    with ModelsClient(url) as models_client:
        remove_each("model", models, models_client.remove, say)
    with NodesClient(url) as nodes_client:
        remove_each("node", nodes, nodes_client.remove, say)


def remove_each(kind: str, names: Iterable[str], remove: Callable[[str], object], say: Say) -> None:
    """Removes those that exist; of each that stays, since something uses it, says why.

    Args:
        kind: the word for one of them.
        names: of them.
        remove: removes one by its name.
        say: prints a line.
    """
    for name in names:
        try:
            remove(name)
        except ModelmillError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                say(f"The {kind} {name} stays: {error.text}")
