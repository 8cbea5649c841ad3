"""A stand-in of an MLflow server into which somebody has written where artifacts lie: as much of it as a fetch and a push
ask for. It serves no artifact itself."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

API = "/api/2.0/mlflow"


class MlflowServer:
    """lies: the address of all artifacts of all its runs and models."""

    def __init__(self, lies: str) -> None:
        self.lies = lies
        self.app = Starlette(
            routes=[
                Route(f"{API}/runs/get", self.run),
                Route(f"{API}/runs/create", self.run, methods=["POST"]),
                Route(f"{API}/model-versions/get-download-uri", self.download_uri),
                Route(f"{API}/experiments/get-by-name", self.experiment),
                Route(f"{API}/logged-models/search", self.nothing, methods=["POST"]),
                Route("/{path:path}", self.nothing, methods=["GET", "POST"]),
            ]
        )

    async def run(self, _: Request) -> Response:
        info: dict[str, Any] = {"run_id": "0a", "run_uuid": "0a", "experiment_id": "1", "artifact_uri": self.lies}
        info |= {"status": "RUNNING", "lifecycle_stage": "active", "start_time": 1}
        return JSONResponse({"run": {"info": info, "data": {}}})

    async def download_uri(self, _: Request) -> Response:
        return JSONResponse({"artifact_uri": self.lies})

    async def experiment(self, _: Request) -> Response:
        return JSONResponse({"experiment": {"experiment_id": "1", "name": "edge", "artifact_location": self.lies}})

    async def nothing(self, _: Request) -> Response:
        return JSONResponse({})
