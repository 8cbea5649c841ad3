"""The product with one capability more, by one line: `python -m tests.harness.toy.main` prints what it then does.

In a process of its own, for the product's parts take the list of capabilities when they are imported.
"""

from __future__ import annotations

import json

from dramatiq import Worker
from starlette.testclient import TestClient
from typer.testing import CliRunner

from app.bootstrap import capabilities
from tests.harness.toy.capability import TOY

capabilities.CAPABILITIES = (*capabilities.CAPABILITIES, TOY)  # type: ignore[assignment]

WAIT_S = 60


def main() -> None:
    from actors import container
    from app.cli.main import app as commands
    from app.main import create_app
    from app.settings import load_settings
    from tests.harness.toy.actors import DONE

    with TestClient(create_app(load_settings()), base_url="http://localhost") as web:
        empty = web.get("/api/v1/toys").json()
        web.post("/api/v1/toys", params={"name": "duck"}).raise_for_status()
        worker = Worker(container.broker, queues={"periodic"}, worker_threads=1, worker_timeout=100)
        worker.start()
        done = container.redis.blpop([DONE], WAIT_S)
        worker.stop()
        told = {
            "before": empty,
            "done": done is not None,
            "after": web.get("/api/v1/toys").json(),
            "described": "/api/v1/toys" in web.get("/openapi.json").json()["paths"],
            "page": web.get("/ui/toys").text,
            "menu": 'href="/ui/toys">Toys</a>' in web.get("/ui/api").text,
            "jump": 'href="/ui/toys">Toys</a>' in web.get("/ui/search/results", params={"q": "toy"}).text,
            "metrics": "modelmill_toys 1.0" in web.get("/metrics").text,
            "command": CliRunner().invoke(commands, ["toys"]).output,
        }
    container.close()
    print(json.dumps(told))


if __name__ == "__main__":
    main()
