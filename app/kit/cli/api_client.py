"""The base of the command line's API clients. It uses the package `modelmill_client`, retries nothing, and raises
errors as the commands report them. It prints nothing.

Errors of the service become ApiError with their code, message and hint; a missing answer is Unreachable.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import httpx
from modelmill_client import Modelmill, errors
from modelmill_client.inputs import OnBytes

from app.kit.cli.command import Unreachable
from app.kit.cli.service_options import DEFAULT_URL
from app.kit.errors import BadRequest, ModelmillError
from app.kit.text.json_values import JsonObject

__all__ = ["ApiClient", "ApiError", "OnBytes", "WaitedEnough", "command_errors"]

SIGN_IN = (
    "Set MODELMILL_TOKEN to a valid token: issue one on the page /ui/account of the service, ask an administrator, or "
    "on the service's machine run `modelmill users token NAME`."
)
START = "Start it with `modelmill up`, or name another address with --url or MODELMILL_URL."
CHECK_URL = "Check --url or MODELMILL_URL."


class ApiError(ModelmillError, code="API_ERROR"):
    """An error reported by the service, with its status and code."""

    def __init__(self, error: errors.ApiError) -> None:
        hint = SIGN_IN if error.status == httpx.codes.UNAUTHORIZED else error.hint
        super().__init__(error.message, hint=hint, detail=error.detail)
        self.status = error.status  # type: ignore[misc]  # the service's, not the class's
        self.code = error.code  # type: ignore[misc]  # the service's
        self.can_retry = error.can_retry  # type: ignore[misc]  # the service's


class WaitedEnough(ModelmillError, code="WAITED_ENOUGH", can_retry=True):
    """The caller's time limit has passed; the job continues."""


class ApiClient:
    """The base of the commands' clients: a connection to the service whose errors are those of commands."""

    def __init__(
        self, url: str = DEFAULT_URL, *, token: str = "", transport: httpx.BaseTransport | None = None
    ) -> None:
        """
        Args:
            url: of the service.
            token: an API token; needed unless the service runs on this machine.
            transport: replaces the network, for tests.
        """
        self.url = url.rstrip("/")
        with command_errors():
            self._client = Modelmill(self.url, token, retries=0, transport=transport)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def _json(self, method: str, path: str, **arguments: Any) -> JsonObject:
        with command_errors():
            return self._client.transport.json(method, path, **arguments)

    def _delete(self, path: str, **arguments: Any) -> None:
        with self._answer("DELETE", path, **arguments) as answer:
            answer.read()

    def _save(self, path: str, target: Path, sha256: str, on_bytes: OnBytes = lambda _: None) -> Path:
        """Downloads to target, under a temporary name until the SHA-256 has been checked."""
        with command_errors():
            return self._client.transport.save(path, target, sha256, on_bytes)

    def _pages(
        self, path: str, field: str, *, limit: int, filters: Mapping[str, str | float | None]
    ) -> Iterator[JsonObject]:
        """Yields the entries of a paged list, at most `limit`."""
        with command_errors():
            yield from self._client.pages(path, field, limit=limit, filters=filters)

    @contextlib.contextmanager
    def _answer(self, method: str, path: str, **arguments: Any) -> Iterator[httpx.Response]:
        """Returns a successful response, its body not yet read."""
        with command_errors(), self._client.transport.answer(method, path, **arguments) as answer:
            yield answer


@contextlib.contextmanager
def command_errors() -> Iterator[None]:
    """Converts errors of the client into those of the commands: ApiError, Unreachable, BadRequest, WaitedEnough."""
    try:
        yield
    except errors.ApiError as error:
        raise ApiError(error) from error
    except errors.WaitedEnough as error:
        raise WaitedEnough(error.message, hint="It goes on; see `modelmill jobs list`.") from error
    except errors.BadUrl as error:
        raise BadRequest(error.message, hint=error.hint) from error
    except errors.Unreachable as error:
        hint = START if "nothing answers" in error.message else CHECK_URL if not error.can_retry else error.hint
        raise Unreachable(error.message, hint=hint) from error
