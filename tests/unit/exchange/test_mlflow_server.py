"""What MLflow is told of a job, beside its files."""

from __future__ import annotations

from app.exchange.transfer.mlflow_server import _build_tags


def test_a_run_has_the_source_of_a_model_that_was_fetched_and_none_for_an_upload() -> None:
    tags = {"modelmill.job_id": "84b8"}
    assert _build_tags({"job_id": "84b8", "source": ""}) == tags
    assert _build_tags({"job_id": "84b8", "source": "hf://a/b"}) == {**tags, "modelmill.source": "hf://a/b"}
