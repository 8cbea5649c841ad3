"""A client of the API of notifications for programs and the command line. Prints nothing."""

from __future__ import annotations

from typing import Any

from app.kit.cli.api_client import ApiClient
from app.kit.cli.partial_ids import SEARCHED_AT_MOST, only_match
from app.kit.text.json_values import JsonObject

TARGETS, DELIVERIES = "/notifications/targets", "/notifications/deliveries"


class NotificationsClient(ApiClient):
    def targets(self) -> list[JsonObject]:
        return list(self._json("GET", TARGETS)["targets"])

    def add(self, kind: str, address: str, **fields: Any) -> JsonObject:
        """Adds a target.

        Args:
            fields: events, subject, label, language.

        Returns:
            The target; a webhook's with its secret.
        """
        return self._json("POST", TARGETS, json={"kind": kind, "address": address, **fields})

    def find_job(self, beginning: str) -> str:
        """Returns the id of the one job whose id begins so.

        Raises:
            NotFound: There is none.
            BadRequest: There are several, or the beginning is empty.
        """
        listed = self._pages("/jobs", "jobs", limit=SEARCHED_AT_MOST, filters={"q": beginning})
        matches = (job for job in listed if job["job_id"].startswith(beginning))
        hint = "`modelmill jobs list` shows those there are."
        return str(only_match(matches, beginning, field="job_id", noun="job", hint=hint)["job_id"])

    def remove(self, target_id: str) -> None:
        self._delete(f"{TARGETS}/{target_id}")

    def test(self, target_id: str) -> JsonObject:
        return self._json("POST", f"{TARGETS}/{target_id}/test")

    def deliveries(self, *, target_id: str = "", limit: int = 20) -> list[JsonObject]:
        """Returns the last messages, the newest first."""
        params = {"limit": limit, **({"target_id": target_id} if target_id else {})}
        return list(self._json("GET", DELIVERIES, params=params)["deliveries"])

    def redeliver(self, delivery_id: str) -> JsonObject:
        return self._json("POST", f"{DELIVERIES}/{delivery_id}/redeliver")
