"""An SFTPGo server as the SFTP backend, driven over its REST API for administrators (2.7, openapi.yaml).

PUT of a user replaces all of it, so the existing user is read first and sent back changed; the password stays if it is
omitted. A password that is changed or a key that is removed ends all sessions of its user: SFTPGo cannot tell which of
them used it. A password is sent as its argon2id hash, which SFTPGo stores as it is. A user with a one-time password
cannot log in over SFTP at all until another is set on the page Data: SFTPGo requests a change only over HTTP.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import quote

import httpx

from app.homes.model import JOBS, KEPT, TMP, TRASH, Quota
from app.homes.sftp.backend import NO_QUOTA, SftpEndpoint, SftpUnavailable, no_account
from app.homes.sftp.credentials import hash_password
from app.kit.text.json_values import JsonObject
from app.kit.text.untrusted_json import UnreadableJson, read_object

READ_RIGHTS = ("list", "download")
CLEAR_RIGHTS = (*READ_RIGHTS, "delete")
FILL_RIGHTS = (*CLEAR_RIGHTS, "rename", "upload", "overwrite", "create_dirs", "chtimes")
"""Without create_symlinks, chmod and chown: nothing in a home may lead out of it, or be hidden from the jobs."""
PERMISSIONS = {
    "/": READ_RIGHTS,
    **{f"/{name}": FILL_RIGHTS for name in KEPT},
    **{f"/{name}": CLEAR_RIGHTS for name in (JOBS, TRASH, TMP)},
}
"""By folder. SFTPGo has one permission, rename, for both ends of a move: nothing may be moved into folders that the
service clears, so nothing can be moved out of them over SFTP either, only downloaded, or moved on the page Data."""
FORMER_PERMISSIONS = PERMISSIONS | {f"/{name}": (*CLEAR_RIGHTS, "rename") for name in (JOBS, TRASH, TMP)}
"""Permissions of accounts from older versions; they get the current ones with their next change."""
DENIED_PROTOCOLS = ("FTP", "DAV")
NO_SHARES = ("shares-disabled",)
MAX_SESSIONS = 8
TIMEOUT_S = 5.0
RENEW_S = 30.0
"""A token is renewed this long before it ends."""


@dataclass(frozen=True)
class SftpgoOptions:
    url: str
    admin: str
    password: str
    homes_root: str
    """Path of the shared storage on SFTPGo."""
    host: str
    """Host and port shown to users."""
    port: int
    api_key: str = ""
    """Instead of admin and password."""


class SftpgoBackend:
    """Safe to share between threads. Of two concurrent changes of one user one would be lost: see Outbox.lease."""

    def __init__(self, options: SftpgoOptions) -> None:
        self.options = options
        self.identity = options.url
        self._client = httpx.Client(base_url=options.url.rstrip("/") + "/api/v2", timeout=TIMEOUT_S)
        self._lock = threading.Lock()
        self._token = ""
        self._token_until = 0.0

    def close(self) -> None:
        self._client.close()

    def create(self, user: str, home: str, password_hash: str, *, quota: Quota = NO_QUOTA) -> None:
        """See `SftpBackend.create`."""
        body = {
            "username": user,
            "status": 1,
            "password": password_hash,
            "quota_size": quota.size_bytes,
            "quota_files": quota.files,
            "home_dir": f"{self.options.homes_root.rstrip('/')}/{home}",
            "permissions": PERMISSIONS,
            "max_sessions": MAX_SESSIONS,
            "public_keys": [],
            "filesystem": {"provider": 0},
            "filters": {
                "require_password_change": True,
                "denied_protocols": list(DENIED_PROTOCOLS),
                "web_client": list(NO_SHARES),
            },
        }
        if self._request("POST", "/users", json=body, accepted=(409,)).status_code == httpx.codes.CONFLICT:
            account = self._build_user(user)
            self._put(user, account | body | {"public_keys": account.get("public_keys") or []})

    def set_password(self, user: str, password: str, *, is_one_time: bool = False) -> None:
        account = self._build_user(user)
        filters = (account.get("filters") or {}) | {"require_password_change": is_one_time}
        self._put(user, account | {"password": hash_password(password), "filters": filters}, disconnect=True)

    def set_keys(self, user: str, keys: Sequence[str]) -> None:
        account = self._build_user(user)
        is_removing = not set(account.get("public_keys") or []) <= set(keys)
        self._put(user, account | {"public_keys": list(keys)}, disconnect=is_removing)

    def set_quota(self, user: str, quota: Quota) -> None:
        self._put(user, self._build_user(user) | {"quota_size": quota.size_bytes, "quota_files": quota.files})

    def keys(self, user: str) -> list[str]:
        return list(self._build_user(user).get("public_keys") or [])

    def needs_new_password(self, user: str) -> bool:
        return bool((self._build_user(user).get("filters") or {}).get("require_password_change"))

    def disable(self, user: str) -> None:
        self._put(user, self._build_user(user) | {"status": 0}, disconnect=True)

    def enable(self, user: str) -> None:
        self._put(user, self._build_user(user) | {"status": 1})

    def delete(self, user: str) -> None:
        self._request("DELETE", _build_path(user), accepted=(404,))

    def info(self, user: str) -> SftpEndpoint:
        try:
            ssh = _read_answer(self._request("GET", "/status")).get("ssh") or {}
        except SftpUnavailable:
            ssh = {}
        prints = [key.get("fingerprint", "") for key in ssh.get("host_keys") or []]
        return SftpEndpoint(self.options.host, self.options.port, user, prints[0] if prints else "")

    def _build_user(self, user: str) -> JsonObject:
        answer = self._request("GET", _build_path(user), accepted=(404,))
        if answer.status_code == httpx.codes.NOT_FOUND:
            raise no_account(user)
        account = _read_answer(answer)
        account.pop("password", None)
        if _is_former(account.get("permissions") or {}):
            account["permissions"] = PERMISSIONS
        return account

    def _put(self, user: str, body: JsonObject, *, disconnect: bool = False) -> None:
        params = {"disconnect": 1} if disconnect else None
        if self._request("PUT", _build_path(user), json=body, params=params, accepted=(404,)).status_code == 404:
            raise no_account(user)

    def _request(self, method: str, path: str, *, accepted: tuple[int, ...] = (), **options: Any) -> httpx.Response:
        """With a valid token; repeated with a new one if SFTPGo has forgotten it (after a restart)."""
        for is_last in (False, True):
            answer = self._send(method, path, headers=self._build_credentials(), **options)
            if answer.status_code != httpx.codes.UNAUTHORIZED or is_last or self.options.api_key:
                break
            self._token_until = 0.0
        if answer.is_success or answer.status_code in accepted:
            return answer
        raise _make_unavailable(answer)

    def _build_credentials(self) -> dict[str, str]:
        if self.options.api_key:
            return {"X-SFTPGO-API-KEY": self.options.api_key}
        with self._lock:
            if time.time() > self._token_until - RENEW_S:
                answer = self._send("GET", "/token", auth=(self.options.admin, self.options.password))
                if not answer.is_success:
                    raise _make_unavailable(answer)
                issued = _read_answer(answer)
                try:
                    until = datetime.fromisoformat(issued["expires_at"]).timestamp()
                    self._token, self._token_until = str(issued["access_token"]), until
                except (KeyError, TypeError, ValueError) as error:
                    raise _make_foreign() from error
            return {"Authorization": f"Bearer {self._token}"}

    def _send(self, method: str, path: str, **options: Any) -> httpx.Response:
        try:
            return self._client.request(method, path, **options)
        except httpx.HTTPError as error:
            raise SftpUnavailable(
                f"SFTPGo does not answer ({type(error).__name__}).", hint="Try again in a minute, or tell the operator."
            ) from error


def _build_path(user: str) -> str:
    return f"/users/{quote(user, safe='')}"


def _read_answer(answer: httpx.Response) -> JsonObject:
    try:
        return read_object(answer.content)
    except UnreadableJson as error:
        raise _make_foreign() from error


def _make_foreign() -> SftpUnavailable:
    return SftpUnavailable(
        "Something else than SFTPGo's API answers.", hint="The operator should check MODELMILL_SFTPGO_URL."
    )


def _is_former(permissions: dict[str, Sequence[str]]) -> bool:
    """Whether these are permissions that this program once set, unchanged since."""
    return {folder: set(rights) for folder, rights in permissions.items()} == {
        folder: set(rights) for folder, rights in FORMER_PERMISSIONS.items()
    }


def _make_unavailable(answer: httpx.Response) -> SftpUnavailable:
    hint = "Try again in a minute, or tell the operator."
    if answer.status_code in (httpx.codes.UNAUTHORIZED, httpx.codes.FORBIDDEN):
        hint = "The operator should check MODELMILL_SFTPGO_USER and MODELMILL_SFTPGO_PASSWORD."
    return SftpUnavailable(f"SFTPGo answered {answer.status_code} to {answer.request.method}.", hint=hint)
