"""Where things are: this repository, and the real models and pictures beside it."""

from __future__ import annotations

from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SHARED_DATA = REPOSITORY.parent / "shared" / "data"
"""Real models, pictures and clips, which are never copied into the repository; may not be there."""
SAMPLES = REPOSITORY / "ops" / "samples"
