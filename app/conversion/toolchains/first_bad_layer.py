"""The layer at which a quantized model first misses its goal: searched by the host toolchain, shown on pages."""

from __future__ import annotations

from dataclasses import dataclass

from app.kit.text.json_values import JsonObject


@dataclass(frozen=True)
class FirstBadLayer:
    """The layer at which the goal is first missed: all before it in 8 bits, the rest in float."""

    tensor: str
    """An activation or a weight, by its name in the float model."""
    layer: str
    """The node that produces or reads it."""
    before_db: float
    """SNR of the worst output with all tensors before it in 8 bits."""
    snr_db: float
    """The same with this tensor in 8 bits, too."""
    count: int
    """How many tensors come before it."""
    tensors: int
    pictures: tuple[str, ...]
    """The names of the pictures with the lowest SNR."""
    channels: tuple[tuple[int, float], ...]
    """The channels that widen its range: the number of each, and the ratio of its range to the median range."""
    before_drop: float | None = None
    """Loss of the task in percent with all before it in 8 bits; None where SNR is the goal."""
    drop: float | None = None
    """The same with this tensor in 8 bits, too."""

    @property
    def shown_channels(self) -> str:
        """ "3 (12 ×), 17 (6 ×)"."""
        return ", ".join(f"{number} ({times:g} ×)" for number, times in self.channels)

    @classmethod
    def from_json(cls, row: JsonObject) -> FirstBadLayer:
        """Reads it from the BIE report."""
        return cls(**row | {"pictures": tuple(row["pictures"]), "channels": tuple(map(tuple, row["channels"]))})
