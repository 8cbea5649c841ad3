"""Commands that call the service: the client that each is given, of the service that is named."""

from __future__ import annotations

from pkgutil import resolve_name
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.kit.cli.api_client import ApiClient
from app.kit.cli.service_commands import ServiceCommands

GROUP = ServiceCommands("app.kit.cli.api_client:ApiClient", help="A group.")


@GROUP.command()
def call(client: ApiClient, word: str) -> None:
    """Print which service is called."""
    print(word, client.url)


@GROUP.command()
def local(word: str) -> None:
    """Call nothing."""
    print(word)


def run(*words: str, of_all: str | None = None) -> str:
    return CliRunner().invoke(GROUP, words, obj=of_all).output


def test_a_command_is_given_a_client_of_the_service_that_is_named() -> None:
    assert run("call", "word") == "word http://127.0.0.1:8080\n"
    assert run("call", "word", of_all="http://a") == "word http://a\n"
    assert run("call", "word", "--url", "http://b/", of_all="http://a") == "word http://b\n"


def test_a_command_without_client_has_no_address() -> None:
    assert run("local", "word") == "word\n"
    assert "No such option" in run("local", "word", "--url", "http://b")


def groups(commands: Any) -> list[ServiceCommands]:
    inner = [each for info in commands.registered_groups for each in groups(info.typer_instance)]
    return [*([commands] if isinstance(commands, ServiceCommands) else []), *inner]


@pytest.mark.parametrize("client", sorted({group.client for group in groups(app)}))
def test_the_client_of_each_group_exists(client: str) -> None:
    assert issubclass(resolve_name(client), ApiClient)
