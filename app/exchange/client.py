"""A client of the API of exchange for programs and the command line. Prints nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from app.kit.cli.api_client import ApiClient
from app.kit.text.json_values import JsonObject

POLL_S = 0.5


class ExchangeClient(ApiClient):
    def push(self, job_id: str, target: str, *, registered_model: str = "") -> JsonObject:
        body = {"target": target, "registered_model": registered_model}
        return self._json("POST", f"/jobs/{job_id}/exports", json=body)

    def transfer(self, transfer_id: str) -> JsonObject:
        return self._json("GET", f"/transfers/{transfer_id}")

    def follow(self, transfer: JsonObject) -> Iterator[JsonObject]:
        """The transfer at once and again and again, until it is over."""
        while True:
            yield transfer
            if transfer["state"] in ("COMPLETED", "FAILED"):
                return
            time.sleep(POLL_S)
            transfer = self.transfer(transfer["transfer_id"])

    def pack(self, job_id: str, target: Path) -> Path:
        """Save the pack of a job."""
        with self._answer("GET", f"/jobs/{job_id}/pack") as answer, target.open("wb") as file:
            file.writelines(answer.iter_bytes())
        return target
