"""Stands in for the processes of video on a node: serves, reports and draws as they do, and computes nothing.

`python -m tests.harness.video.worker_program` with MODELMILL_WORK. Writes `starts` (a line of its pid) into its folder.
"""

from __future__ import annotations

import json
import os
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import count
from pathlib import Path
from typing import Any

import httpx

PART = b"--frame\r\nContent-Type: image/jpeg\r\n\r\n\xff\xd8\xff%d\r\n"
EVERY_S = 0.05


def main() -> None:
    work: dict[str, Any] = json.loads(Path(os.environ["MODELMILL_WORK"]).read_bytes())
    with (Path(work["folder"]) / "starts").open("a") as file:
        file.write(f"{os.getpid()}\n")
    Handler.secret = work["content"]["secret"]
    server = ThreadingHTTPServer((work["host"], work["port"]), Handler)
    says = report_results if "uid" in work["content"] else say_how_it_is
    threading.Thread(target=says, args=(work,), daemon=True).start()
    server.serve_forever()


class Handler(BaseHTTPRequestHandler):
    secret = ""

    def do_GET(self) -> None:
        if self.path == "/healthz":
            self.send_response(200)
            self.end_headers()
            return
        is_known = self.headers.get("Authorization") == f"Bearer {self.secret}"
        self.send_response(200 if is_known else 401)
        self.send_header("Content-Type", "multipart/x-mixed-replace; boundary=frame")
        self.end_headers()
        viewers = Path("viewers")
        viewers.write_text("1")
        try:
            for number in count():
                self.wfile.write(PART % number)
                time.sleep(EVERY_S)
        except OSError:
            viewers.write_text("0")

    def log_message(self, *_: object) -> None:
        return


def report_results(work: dict[str, Any]) -> None:
    uid = work["content"]["uid"]
    with httpx.Client(base_url=work["agent_url"], trust_env=False) as agent:
        agent.post("/node/get_plan", json={"job_uid": uid, "dag": work["content"]["dag"]})
        for seq in count(1):
            answer = agent.post("/node/sync_job_result", json={"job_uid": uid, "seq": seq, "results": []})
            assert answer.json() == {"status": 0}
            agent.post(f"/video/{uid}/picture", content=b"\xff\xd8\xff%d" % seq)
            time.sleep(EVERY_S)


def say_how_it_is(work: dict[str, Any]) -> None:
    with httpx.Client(base_url=work["agent_url"], trust_env=False) as agent:
        for queue in count():
            agent.post("/video/services/info", json={"detail": {"queue": queue}})
            time.sleep(EVERY_S)


if __name__ == "__main__":
    main()
