"""A hard-example algorithm of somebody's own, as a package that pip has installed."""

from __future__ import annotations

from pathlib import Path

ALGORITHM = """
from app.joint_inference.hard_examples import Verdict

class Wanted:
    name = "Wanted"

    def __init__(self, parameters):
        self.digit = int(parameters.get("digit", "3"))

    def __call__(self, prediction):
        return Verdict(prediction.label == self.digit, 1.0, f"it is wanted: {self.digit}")

    def never(self, *, candidate_threshold):
        return ""
"""


def installed(folder: Path) -> Path:
    """Named Wanted."""
    about = folder / "own_hard-1.0.dist-info"
    about.mkdir(parents=True)
    (folder / "own_hard.py").write_text(ALGORITHM)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: own-hard\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[modelmill.hard_examples]\nWanted = own_hard:Wanted\n")
    return folder
