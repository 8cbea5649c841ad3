"""One transfer: `python -m app.exchange.transfer`, with the request on standard input and JSON lines on standard
output."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from app.exchange.model import Kind, read_source, read_target
from app.exchange.transfer.protocol import Access, Fetched, Progress, tell
from app.kit.errors import ModelmillError
from app.kit.text.json_values import JsonObject


def main() -> int:
    request = json.load(sys.stdin)
    try:
        tell(result=_push(request) if request["direction"] == "out" else _fetch(request))
    except ModelmillError as error:
        tell(error=error.to_dict())
    return 0


def _read_access(request: JsonObject) -> Access:
    given: JsonObject = request["access"]
    lists: dict[str, Any] = {name: tuple(value) for name, value in given.items() if isinstance(value, list)}
    return Access(**given | lists)


def _fetch(request: JsonObject) -> JsonObject:
    source, folder, access = read_source(request["place"]), Path(request["folder"]), _read_access(request)
    progress = Progress(request["max_bytes"])
    fetched = _fetch_kind(source.kind)(source, folder, access, progress)
    return {"model": str(fetched.model), "beside": {name: str(path) for name, path in fetched.beside.items()}}


def _fetch_kind(kind: Kind) -> Any:
    from app.exchange.transfer import buckets, hub, mlflow_server, urls

    modules = {Kind.URL: urls, Kind.S3: buckets, Kind.HUB: hub, Kind.RUN: mlflow_server, Kind.REGISTERED: mlflow_server}
    return modules[kind].fetch


def _push(request: JsonObject) -> JsonObject:
    from app.exchange.transfer import hub, mlflow_server

    target, access, facts = read_target(request["place"]), _read_access(request), request["facts"]
    files = {name: Path(path) for name, path in request["files"].items()}
    if target.kind is Kind.HUB:
        return {"url": hub.push(target, files, facts, access)}
    registered = request["registered_model"]
    return {"url": mlflow_server.push(target, files, facts, access, registered_model=registered)}


__all__ = ["Fetched", "main"]

if __name__ == "__main__":
    sys.exit(main())
