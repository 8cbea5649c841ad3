"""Commands that call the service: each is given an open client, and has the option `--url`."""

from __future__ import annotations

import inspect
import pkgutil
from collections.abc import Callable
from functools import wraps
from typing import Any

import typer

from app.kit.cli.command import EPILOG
from app.kit.cli.finite_numbers import Command, with_finite_numbers
from app.kit.cli.service_options import Url, token, url_of


class ServiceCommands(typer.Typer):
    """A group of commands. Those whose first parameter is `client` are given one; see `with_client`."""

    def __init__(self, client: str, *, help: str, epilog: str = EPILOG) -> None:
        """
        Args:
            client: MODULE:CLASS of the client, an ApiClient. It is imported when a command runs.
            help: A sentence about the group.
            epilog: The exit codes.
        """
        super().__init__(help=help, no_args_is_help=True, epilog=epilog)
        self.client = client

    def command(self, *arguments: Any, **options: Any) -> Callable[[Any], Any]:
        register = super().command(*arguments, **options)
        return lambda function: register(with_client(self.client)(function))


def with_client(client: str) -> Callable[[Command], Command]:
    """A decorator: the command's first parameter `client` is an open client of the service that `--url` names.

    Args:
        client: MODULE:CLASS of the client.
    """

    def decorate(function: Command) -> Command:
        of_client = function.__annotations__.get("client")  # a name that only type checkers know
        if of_client is None:
            return with_finite_numbers(function)
        own = list(inspect.signature(function, locals={of_client: object}, eval_str=True).parameters.values())[1:]

        @wraps(function)
        def command(context: typer.Context, url: str | None, **arguments: Any) -> None:
            with pkgutil.resolve_name(client)(url_of(context, url), token=token()) as opened:
                function(opened, **arguments)

        parameters = [_parameter("context", typer.Context), *own, _parameter("url", Url, None)]
        command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # what Typer reads, with
        command.__annotations__ = {each.name: each.annotation for each in parameters}
        return with_finite_numbers(command)

    return decorate


def _parameter(name: str, annotation: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    return inspect.Parameter(name, kind, default=default, annotation=annotation)
