"""Several conversions that belong together: every model with every set of options. The wiring provides the
implementation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True)
class BatchModel:
    """A model with its reference samples, and the options that all its jobs share."""

    name: str
    model_key: str
    quant_key: str
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Variant:
    """The changes of one column of the batch to these options."""

    name: str
    options: Mapping[str, Any]


class Batches(Protocol):
    def begin(
        self,
        owner: str,
        models: Sequence[BatchModel],
        variants: Sequence[Variant],
        *,
        name: str,
        tags: tuple[str, ...],
        no_cache: bool = False,
    ) -> str:
        """Converts every model with every variant as there is room.

        Args:
            models: the uploads of the jobs.
            variants: sets of options, each with its name.
            name: the name of the sweep.
            tags: given to every job.
            no_cache: run every stage, without the cache.

        Returns:
            The id of the sweep that shows them.

        Raises:
            BadInput: Invalid options, too many jobs, or a toolchain that is not installed.
        """
        ...
