"""docs/configuration.md says what the settings object says."""

from __future__ import annotations

import re

from app.settings import Settings
from app.training.model import Workload
from app.training.service import TrainingOptions
from app.training.spec import TaskSpec
from app.training.workloads import submission_of
from ops.configuration import PAGE, page, undescribed
from tests.harness.paths import REPOSITORY


def test_the_page_is_the_one_that_the_settings_make() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m ops.configuration"


def test_every_setting_says_what_it_means() -> None:
    assert undescribed() == []


def test_every_variable_named_in_a_document_exists() -> None:
    known = {f"MODELMILL_{name.upper()}" for name in Settings.model_fields}
    known |= {
        "MODELMILL_FUZZ_COUNT",
        "MODELMILL_FUZZ_SEED",
        "MODELMILL_SEARCH_SEED",
        "MODELMILL_SEARCH_TIMES",
        "MODELMILL_SECRETS_DIR",
        "MODELMILL_PYTHON",
        "MODELMILL_RECEIPT_KEY",
        "MODELMILL_CAMERA_AUTHORITIES",
        "MODELMILL_HARDWARE_DECODING",
        "MODELMILL_NODE_MEDIA_SERVER",
        "MODELMILL_NODE_TOKEN",
        "MODELMILL_ONNX_PYTHON",
        "MODELMILL_PACKAGE",
        "MODELMILL_TOKEN",
        "MODELMILL_URL",
        "MODELMILL_WORK",
    }
    known |= given_to_programs()
    for document in (REPOSITORY / "README.md", *sorted((REPOSITORY / "docs").glob("*.md"))):
        named = set(re.findall(r"MODELMILL_[A-Z][A-Z0-9_]*[A-Z0-9]\b", document.read_text(encoding="utf-8")))
        assert named <= known, document.name


def given_to_programs() -> set[str]:
    """What a training program finds in its environment."""
    paths = {name: f"/private/common/{name}" for name in ("code_path", "train_file", "val_file", "model_path")}
    submission = submission_of(
        TaskSpec(workload=Workload.SCRIPT, **paths),
        submission_id="t--a01",
        task_id="t",
        user="user",
        options=TrainingOptions(is_on=True, homes_root="/private"),
        logical_root="/private",
        resume_path="/private/common/checkpoint",
    )
    return set(submission.env)
