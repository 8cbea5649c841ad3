"""A stand-in of the hub's HTTP API: as much of it as fetching a model and pushing a commit ask for."""

from __future__ import annotations

import base64
import hashlib
import json

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class Hub:
    """files: repository → path → bytes. refuses: repositories that the token may not change."""

    def __init__(self, files: dict[str, dict[str, bytes]], refuses: tuple[str, ...] = ()) -> None:
        self.files = files
        self.refuses = refuses
        self.pages: list[str] = []
        self.private: set[str] = set()
        self.app = Starlette(
            routes=[
                Route("/api/models/{org}/{name}", self.info),
                Route("/api/models/{org}/{name}/revision/{revision}", self.info),
                Route("/{org}/{name}/resolve/{revision}/{path:path}", self.resolve, methods=["GET", "HEAD"]),
                Route("/api/repos/create", self.create, methods=["POST"]),
                Route("/api/models/{org}/{name}/preupload/{revision}", self.preupload, methods=["POST"]),
                Route("/api/models/{org}/{name}/commit/{revision}", self.commit, methods=["POST"]),
                Route("/api/whoami-v2", self.whoami),
                Route("/api/validate-yaml", self.validate, methods=["POST"]),
            ]
        )

    @staticmethod
    def _repo(request: Request) -> str:
        return f"{request.path_params['org']}/{request.path_params['name']}"

    async def info(self, request: Request) -> Response:
        repo = self._repo(request)
        if repo not in self.files:
            return JSONResponse({"error": "Repository not found"}, 404, headers={"X-Error-Code": "RepoNotFound"})
        siblings = [{"rfilename": path, "size": len(data)} for path, data in self.files[repo].items()]
        return JSONResponse({"id": repo, "modelId": repo, "sha": COMMIT, "private": False, "siblings": siblings, "tags": []})

    async def resolve(self, request: Request) -> Response:
        data = self.files.get(self._repo(request), {}).get(request.path_params["path"])
        if data is None:
            return JSONResponse({"error": "Entry not found"}, 404, headers={"X-Error-Code": "EntryNotFound"})
        headers = {"ETag": f'"{hashlib.sha1(data).hexdigest()}"', "X-Repo-Commit": COMMIT}
        return Response(data, headers=headers)

    async def create(self, request: Request) -> Response:
        body = await request.json()
        repo = f"{body.get('organization') or 'me'}/{body['name']}" if "/" not in body["name"] else body["name"]
        if repo in self.refuses:
            return JSONResponse({"error": "Forbidden"}, 403)
        if repo not in self.files and body.get("visibility") == "private":
            self.private.add(repo)
        self.files.setdefault(repo, {})
        return JSONResponse({"url": f"{request.base_url}{repo}", "name": repo})

    async def preupload(self, request: Request) -> Response:
        body = await request.json()
        files = [{"path": file["path"], "uploadMode": "regular", "shouldIgnore": False} for file in body["files"]]
        return JSONResponse({"files": files, "commitOid": COMMIT})

    async def commit(self, request: Request) -> Response:
        repo = self._repo(request)
        for line in (await request.body()).decode().splitlines():
            entry = json.loads(line)
            if entry["key"] == "file":
                self.files[repo][entry["value"]["path"]] = base64.b64decode(entry["value"]["content"])
            elif entry["key"] == "header":
                self.pages.append(entry["value"]["summary"])
        url = f"{request.base_url}{repo}/commit/{COMMIT}"
        return JSONResponse({"commitUrl": url, "commitOid": COMMIT, "success": True})

    async def whoami(self, request: Request) -> Response:
        return JSONResponse({"name": "me", "type": "user", "orgs": []})

    async def validate(self, request: Request) -> Response:
        return JSONResponse({"errors": [], "warnings": []})
