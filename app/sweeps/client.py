"""A client of the API of sweeps for programs and the command line. Prints nothing."""

from __future__ import annotations

from collections.abc import Sequence

from app.kit.cli.api_client import ApiClient, command_errors
from app.kit.text.json_values import JsonObject

SWEEPS = "/sweeps"


class SweepsClient(ApiClient):
    def create(
        self,
        models: Sequence[JsonObject],
        options: Sequence[JsonObject],
        *,
        name: str = "",
        tags: Sequence[str] = (),
        no_cache: bool = False,
    ) -> JsonObject:
        """Starts a sweep of every model with every set of options.

        Args:
            models: name, model_key, quant_key, options.
            options: name, options.
            no_cache: carry out every stage, even if the same work was done before.
        """
        body: JsonObject = {"name": name, "tags": list(tags), "models": list(models), "options": list(options)}
        if no_cache:  # services of older versions do not know this field
            body["no_cache"] = True
        return self._json("POST", SWEEPS, json=body)

    def sweeps(self, *, limit: int = 50) -> list[JsonObject]:
        """Returns sweeps, the newest first."""
        return list(self._json("GET", SWEEPS, params={"limit": limit})["sweeps"])

    def sweep(self, sweep_id: str) -> JsonObject:
        return self._json("GET", f"{SWEEPS}/{sweep_id}")

    def wait(self, sweep_id: str) -> JsonObject:
        """Returns the sweep when all its jobs have ended."""
        with command_errors():
            self._client.wait_for_sweep(sweep_id)
        return self.sweep(sweep_id)

    def table(self, sweep_id: str) -> str:
        """Returns the table as CSV."""
        with self._answer("GET", f"{SWEEPS}/{sweep_id}/table.csv") as answer:
            return answer.read().decode()

    def cancel(self, sweep_id: str) -> JsonObject:
        return self._json("POST", f"{SWEEPS}/{sweep_id}/cancel")
