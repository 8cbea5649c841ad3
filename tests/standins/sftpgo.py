"""SFTPGo's REST API for administrators as its OpenAPI document has it (2.7), as far as the product needs it.

Users are kept in memory. `SftpgoStandin.logs_in` answers what the SFTP side of it would.
"""

from __future__ import annotations

import base64
import re
import socket
import threading
import time
import uuid
from datetime import datetime, timezone

import uvicorn
from argon2 import PasswordHasher
from argon2.exceptions import VerifyMismatchError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from tests.harness.web import Server

USERNAME = re.compile(r"^[a-zA-Z0-9\-_.~]+$")
PERMISSIONS = {
    "*", "list", "download", "upload", "overwrite", "delete", "delete_files", "delete_dirs", "rename", "rename_files",
    "rename_dirs", "create_dirs", "create_symlinks", "chmod", "chown", "chtimes", "copy",
}
FINGERPRINT = "SHA256:f1WcFrAkYjYBNWNAZrWlzaVjIWvlJjZLZ9pvHaU4WbU"
DEFAULTS = {"status": 0, "public_keys": [], "permissions": {}, "quota_size": 0, "max_sessions": 0, "filters": {}}


class SftpgoStandin:
    def __init__(self, admin="admin", password="admin password", api_key="the key"):
        self.admin, self.password, self.api_key = admin, password, api_key
        self.forget()
        routes = [
            Route("/api/v2/token", self._token),
            Route("/api/v2/users", self._add, methods=["POST"]),
            Route("/api/v2/users/{name}", self._one, methods=["GET", "PUT", "DELETE"]),
            Route("/api/v2/status", self._status),
        ]
        self._socket = socket.socket()
        self._socket.bind(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self._server = Server(uvicorn.Config(Starlette(routes=routes), log_level="error", lifespan="off"))
        self._thread = threading.Thread(target=self._server.run, args=([self._socket],))
        self._thread.start()
        while not self._server.started:
            time.sleep(0.01)

    def forget(self):
        """As if it were new."""
        self.users, self.tokens, self.disconnected, self.requests = {}, {}, [], []
        self.token_s = 1200
        self.is_broken = False

    def close(self):
        self._server.should_exit = True
        self._thread.join()
        self._socket.close()

    def logs_in(self, name, password):
        user = self.users.get(name)
        if user is None or user["status"] != 1 or user["filters"].get("require_password_change"):
            return False
        try:
            return PasswordHasher().verify(user["password"], password)
        except VerifyMismatchError:
            return False

    def may(self, name, right, folder):
        """As its permissions say: those of the nearest folder that has some."""
        permissions = self.users[name]["permissions"]
        while folder not in permissions:
            folder = folder.rpartition("/")[0] or "/"
        return bool({"*", right} & set(permissions[folder]))

    def uploads(self, name, path, *, replace=False):
        folder = path.rpartition("/")[0] or "/"
        return self.may(name, "upload", folder) and (not replace or self.may(name, "overwrite", folder))

    def renames(self, name, source, target, *, replace=False):
        """One right for both ends of a move, and another for what is written over."""
        folders = [path.rpartition("/")[0] or "/" for path in (source, target)]
        is_allowed = all(self.may(name, "rename", folder) for folder in folders)
        return is_allowed and (not replace or self.may(name, "overwrite", folders[1]))

    def _refusal(self, request):
        self.requests.append((request.method, request.url.path))
        if self.is_broken:
            return JSONResponse({"message": "Internal Server Error"}, 500)
        if request.headers.get("x-sftpgo-api-key") == self.api_key:
            return None
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if self.tokens.get(token, 0) < time.time():
            return JSONResponse({"error": "token is expired", "message": "Unauthorized"}, 401)
        return None

    async def _token(self, request: Request):
        credentials = base64.b64encode(f"{self.admin}:{self.password}".encode()).decode()
        if request.headers.get("authorization") != f"Basic {credentials}":
            return JSONResponse({"message": "Unauthorized"}, 401)
        token, until = uuid.uuid4().hex, time.time() + self.token_s
        self.tokens[token] = until
        told = datetime.fromtimestamp(until, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        return JSONResponse({"access_token": token, "expires_at": told})

    async def _add(self, request: Request):
        if refusal := self._refusal(request):
            return refusal
        body = await request.json()
        if body.get("username") in self.users:
            return JSONResponse({"error": "duplicated key not allowed", "message": "Conflict"}, 409)
        if problem := _problem(body):
            return JSONResponse({"error": problem, "message": "Bad Request"}, 400)
        self.users[body["username"]] = DEFAULTS | body | {"id": len(self.users) + 1}
        return JSONResponse(self._shown(body["username"]), 201)

    async def _one(self, request: Request):
        if refusal := self._refusal(request):
            return refusal
        name = request.path_params["name"]
        if name not in self.users:
            return JSONResponse({"error": "user not found", "message": "Not Found"}, 404)
        if request.method == "DELETE":
            del self.users[name]
            self.disconnected.append(name)
            return JSONResponse({"message": "User deleted"})
        if request.method == "PUT":
            body = await request.json()
            if problem := _problem(body | {"username": name}):
                return JSONResponse({"error": problem, "message": "Bad Request"}, 400)
            before = self.users[name]
            kept = {"username": name, "id": before["id"], "password": body.get("password") or before["password"]}
            self.users[name] = DEFAULTS | body | kept  # all that was left out is gone
            if request.query_params.get("disconnect") == "1":
                self.disconnected.append(name)
            return JSONResponse({"message": "User updated"})
        return JSONResponse(self._shown(name))

    async def _status(self, request: Request):
        if refusal := self._refusal(request):
            return refusal
        key = {"path": "/var/lib/sftpgo/id_ed25519", "fingerprint": FINGERPRINT}
        return JSONResponse({"ssh": {"is_active": True, "host_keys": [key]}})

    def _shown(self, name):
        user = dict(self.users[name])
        del user["password"]
        return user | {"has_password": True, "used_quota_size": 0}


def _problem(body):
    if not USERNAME.match(body.get("username") or ""):
        return "username is not valid"
    if not (body.get("home_dir") or "").startswith("/"):
        return "home_dir must be an absolute path"
    permissions = body.get("permissions") or {}
    if not permissions.get("/") or set(permissions["/"]) - PERMISSIONS:
        return "please grant some valid permissions"
    if set((body.get("filters") or {}).get("denied_protocols") or ()) - {"SSH", "FTP", "DAV", "HTTP"}:
        return "invalid denied protocols"
    return None
