"""Writes the CRD down for clusters: `python -m ops.crd`. A test sees that the file is what the program says."""

from __future__ import annotations

from pathlib import Path

import yaml

from app.joint_inference.model.crd import crd

FILE = Path(__file__).parent / "crd" / "jointinferenceservice_v1alpha1.yaml"
HEAD = "# Written by `python -m ops.crd` from app/joint_inference/model/crd.py.\n"


def text() -> str:
    return HEAD + str(yaml.safe_dump(crd(), sort_keys=False))


def main() -> None:
    FILE.parent.mkdir(exist_ok=True)
    FILE.write_text(text())


if __name__ == "__main__":
    main()
