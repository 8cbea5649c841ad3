"""The part of a client that is about rows, rules and sinks, of whatever makes them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from urllib.parse import quote

from app.kit.cli.api_client import ApiClient
from app.kit.text.json_values import JsonObject


class ResultsClient(ApiClient):
    """Rows, rules and sinks of a producer. The argument `place` is the path of a video job or a service in the API,
    without a slash at its end."""

    def all_rows(self, place: str, form: str, **criteria: Any) -> Iterator[bytes]:
        """Yields all matching rows as a file, piece by piece.

        Args:
            form: csv, jsonl, parquet.
            criteria: since, until, label, min_score.
        """
        with self._answer("GET", f"{place}/rows.{form}", params=_list_given(criteria)) as answer:
            yield from answer.iter_bytes()

    def rules(self, place: str) -> JsonObject:
        """{zones, rules, problem}"""
        return self._json("GET", f"{place}/rules")

    def put_rules(self, place: str, rules: JsonObject) -> JsonObject:
        """rules: {zones, rules}, replacing all that it has."""
        return self._json("PUT", f"{place}/rules", json=rules)

    def rule_events(self, place: str, **criteria: Any) -> JsonObject:
        """{events, next_cursor}.

        Args:
            criteria: rule, since, until, order, cursor, limit.
        """
        return self._json("GET", f"{place}/rule-events", params=_list_given(criteria))

    def sinks(self, place: str) -> list[JsonObject]:
        """Returns the sinks, the oldest first."""
        return list(self._json("GET", f"{place}/sinks")["sinks"])

    def add_sink(self, place: str, kind: str, address: str, content: str, sent_by: str = "server") -> JsonObject:
        """Adds a destination for rows or events.

        Args:
            kind: a value of SinkKind, such as mqtt.
            content: rows, events.
            sent_by: server, node.

        Returns:
            The sink; one of http with its secret, which is returned only this once.
        """
        sink = {"kind": kind, "address": address, "content": content, "sent_by": sent_by}
        return self._json("POST", f"{place}/sinks", json=sink)

    def test_sink(self, place: str, sink_id: str) -> JsonObject:
        """Sends a test message.

        Returns:
            {is_taken, problem}
        """
        return self._json("POST", f"{place}/sinks/{quote(sink_id, safe='')}/test")

    def remove_sink(self, place: str, sink_id: str) -> None:
        self._delete(f"{place}/sinks/{quote(sink_id, safe='')}")


def _list_given(criteria: JsonObject) -> JsonObject:
    return {name: value for name, value in criteria.items() if value not in ("", None)}
