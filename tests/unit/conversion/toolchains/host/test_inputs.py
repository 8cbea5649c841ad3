from __future__ import annotations

import pytest

from app.conversion.toolchains.host.inputs import Noise


@pytest.mark.parametrize("shape", [(1 << 40, 1 << 40), (1 << 60,)])
def test_noise_beyond_every_address_is_a_lack_of_memory(shape: tuple[int, ...]) -> None:
    """Which a stage has words for."""
    with pytest.raises(MemoryError):
        next(iter(Noise({"x": (shape, "float32", 0.0, 1.0)}, 1)))
