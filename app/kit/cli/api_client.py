"""What every client of this product's JSON API does alike: who asks where, errors, files. Owns HTTP; prints nothing.

Errors of the service come back as ApiError with its code, message and hint; no answer at all is Unreachable.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

import httpx

from app.kit.cli.command import Unreachable
from app.kit.cli.service_options import DEFAULT_URL
from app.kit.errors import BadRequest, ModelmillError

SIGN_IN = (
    "Set MODELMILL_TOKEN to a valid token: issue one on the page /ui/account of the service, ask an administrator, or "
    "on the service's machine run `modelmill users token NAME`."
)
TIMEOUT = httpx.Timeout(connect=5, read=300, write=300, pool=5)
CHUNK_BYTES = 1 << 20
OnBytes = Callable[[int], None]


class ApiError(ModelmillError):
    """What the service said was wrong; status and code are its own."""

    code = "API_ERROR"

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__(
            str(body.get("message") or f"HTTP {status}"), hint=str(body.get("hint") or ""), detail=body.get("detail")
        )
        self.status = status  # type: ignore[misc]  # the service's, not the class's
        self.code = str(body.get("code") or "API_ERROR")  # type: ignore[misc]
        self.can_retry = bool(body.get("can_retry"))  # type: ignore[misc]


class WaitedEnough(ModelmillError):
    """The time the caller gave is over; the job goes on."""

    code = "WAITED_ENOUGH"
    can_retry = True


class ApiClient:
    def __init__(
        self, url: str = DEFAULT_URL, *, token: str = "", transport: httpx.BaseTransport | None = None
    ) -> None:
        """token: an API token; without one the service knows only who is on its own machine."""
        self.url = url.rstrip("/")
        is_local = urlsplit(self.url).hostname in {"127.0.0.1", "localhost", "::1"}
        self._http = httpx.Client(
            base_url=self.url,
            timeout=TIMEOUT,
            transport=transport,
            trust_env=not is_local,  # no proxy to ourselves
            headers={"Authorization": f"Bearer {token}"} if token else {},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._http.close()

    def _json(self, method: str, path: str, **arguments: Any) -> dict[str, Any]:
        with self._answer(method, path, **arguments) as answer:
            body = _parsed(answer.read())
        if not isinstance(body, dict):
            raise self._stranger()
        return body

    def _save(self, path: str, target: Path, sha256: str, on_bytes: OnBytes = lambda _: None) -> Path:
        """Into target, under another name until its sha256 has been checked."""
        draft, digest = target.with_name(f".{target.name}.part"), hashlib.sha256()
        try:
            with self._answer("GET", path) as answer, draft.open("wb") as file:
                for chunk in answer.iter_bytes(CHUNK_BYTES):
                    digest.update(chunk)
                    file.write(chunk)
                    on_bytes(len(chunk))
            if digest.hexdigest() != sha256:
                raise Unreachable(f"{target.name} was damaged on the way", hint="Download it again.")
            return draft.replace(target)
        finally:
            draft.unlink(missing_ok=True)

    @contextlib.contextmanager
    def _answer(self, method: str, path: str, **arguments: Any) -> Iterator[httpx.Response]:
        """A good answer, its body not yet read. Raises ApiError, Unreachable."""
        try:
            with self._http.stream(method, path, **arguments) as answer:
                if answer.is_error:
                    raise self._refusal(answer)
                yield answer
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise Unreachable(
                f"nothing answers at {self.url}",
                hint="Start it with `modelmill up`, or name another address with --url or MODELMILL_URL.",
            ) from error
        except httpx.TransportError as error:
            if isinstance(error, httpx.UnsupportedProtocol):
                raise BadRequest(f"{self.url} is no address", hint=f"It should look like {DEFAULT_URL}.") from error
            raise Unreachable(f"the connection to {self.url} broke: {error or type(error).__name__}") from error
        except httpx.InvalidURL as error:
            raise BadRequest(
                f"{self.url} is no address: {error}", hint=f"It should look like {DEFAULT_URL}."
            ) from error

    def _refusal(self, answer: httpx.Response) -> ModelmillError:
        body = _parsed(answer.read())
        if isinstance(body, dict) and isinstance(body.get("error"), dict):
            error = ApiError(answer.status_code, body["error"])
            if answer.status_code == httpx.codes.UNAUTHORIZED:
                error.hint = SIGN_IN
            return error
        return self._stranger()

    def _stranger(self) -> Unreachable:
        return Unreachable(f"what answers at {self.url} is not Modelmill", hint="Check --url or MODELMILL_URL.")


def _parsed(body: bytes) -> Any:
    with contextlib.suppress(ValueError):
        return json.loads(body)
    return None
