"""What a search has measured so far, in a file of the job's work folder: a process that continues a killed one measures
none of it again, and chooses the same."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

from app.conversion.toolchains.base import SEARCH_JOURNAL, StageRequest
from app.conversion.toolchains.budget import Budget
from app.kit.files import sha256_of
from app.kit.sandbox.errors import StageFailed
from app.kit.text.json_values import JsonObject

BEGUN_MOST = 2
"""How often a measurement is begun that ends its process."""


class Journal:
    """Results by name, in the order in which they were measured.

    Args:
        path: of the file; None: nothing is kept.
        work: digest of what is searched; results of other work are dropped.
        budget: set to what was used when a result that is known had been measured.
    """

    def __init__(self, path: Path | None, work: str, budget: Budget) -> None:
        self._path, self._budget = path, budget
        self._begun: Counter[str] = Counter()
        self._known: dict[str, JsonObject] = {}
        rows = [] if path is None else _rows_of(path)
        if rows[:1] == [{"work": work}]:
            for row in rows[1:]:
                if "value" in row:
                    self._known[row["name"]] = row
                else:
                    self._begun[row["name"]] += 1
        elif path is not None:
            path.unlink(missing_ok=True)
            self._write({"work": work})

    @property
    def known(self) -> int:
        """Number of results that are not measured again."""
        return len(self._known)

    def remember(self, name: str, measure: Callable[[], Any]) -> Any:
        """Returns what is known by this name, or measures and keeps it.

        Args:
            measure: returns JSON.

        Raises:
            StageFailed: The process ended each time it was measured; and whatever measuring raises.
        """
        known = self._known.get(name)
        if known is not None:
            self._budget.resume(known["elapsed_s"], known["cpu_s"])
            return known["value"]
        if self._begun[name] >= BEGUN_MOST:
            raise StageFailed("it ended the process each time")
        self._write({"name": name})
        value = measure()
        self._write({"name": name, "value": value, "elapsed_s": self._budget.elapsed_s, "cpu_s": self._budget.cpu_s})
        return value

    def _write(self, row: JsonObject) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, default=float) + "\n")


def kept_in(request: StageRequest, *facts: str) -> tuple[Path, str]:
    """Returns the journal of a stage, and the digest of its work: its input, its options, and these facts."""
    texts = [sha256_of(request.input()), request.options.model_dump_json(), *facts]
    return request.scratch() / SEARCH_JOURNAL, hashlib.sha256("\n".join(texts).encode()).hexdigest()


def _rows_of(path: Path) -> list[JsonObject]:
    """Returns the rows of a journal; none without a file. A row that was cut off is removed from the file."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    whole = text[: text.rfind("\n") + 1]
    if whole != text:
        path.write_text(whole, encoding="utf-8")
    return [json.loads(line) for line in whole.splitlines()]
