"""mlflow:// and models:/ — runs and registered models of the MLflow server that the operator names."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from app.exchange.errors import BadSource, SourceRefused, TransferFailed
from app.exchange.model import ENDINGS, Kind, Source, Target
from app.exchange.transfer.model_card import model_card
from app.exchange.transfer.protocol import Access, Fetched, Progress
from app.kit.errors import ExtraMissing
from app.kit.text.json_values import JsonObject

MAX_FILES = 1000
WRAPPERS = frozenset({"runs", "models"})
"""Schemes of MLflow that refer to another address, that of a run or a registered model."""
FOLDER = "modelmill"
"""Folder of the results in a run."""


def fetch(source: Source, folder: Path, access: Access, progress: Progress) -> Fetched:
    """Fetch the one model among a run's artifacts; weights beside it come with it.

    Args:
        folder: takes the files.
        access: the MLflow server and its token.
        progress: hears of the files; raises when they are too many bytes.

    Raises:
        BadSource: No model, or several.
        SourceRefused: The operator names no MLflow server.
        SourceTooLarge: By the sizes that MLflow tells.
        TransferFailed: The server refuses, or does not answer.
        ExtraMissing: mlflow is not installed.
    """
    mlflow, errors = _open_client(access)
    uri = _build_uri(source)
    try:
        files = {file.path: file.file_size or 0 for file in _iterate_files(mlflow, uri, access.mlflow_uri)}
        progress.expect(sum(files.values()))
        where = mlflow.artifacts.download_artifacts(uri, dst_path=str(folder), tracking_uri=access.mlflow_uri)
    except errors as error:
        raise TransferFailed(f"{source.text} could not be fetched: {_describe_error(error)}") from error
    paths = [path for path in _list_below(Path(where)) if path.suffix in ENDINGS]
    if len(paths) != 1:
        raise BadSource(
            f"{source.text} has {len(paths) or 'no'} models that could be converted.",
            hint=f"Name the path of one that ends in {', '.join(ENDINGS)}.",
        )
    (model,) = paths
    progress.add(sum(path.stat().st_size for path in _list_below(Path(where))))
    beside = {path.name: path for path in model.parent.iterdir() if path != model and path.name.startswith(model.name)}
    return Fetched(model, beside)


def push(
    target: Target, files: Mapping[str, Path], facts: Mapping[str, Any], access: Access, *, registered_model: str
) -> str:
    """Push a run with metrics, parameters, tags and artifacts.

    Args:
        files: path on this machine by name.
        facts: about the job: metrics, parameters, and what its model card says.
        registered_model: gets a new version; empty: none.

    Returns:
        The page of the run.

    Raises:
        SourceRefused: The operator names no MLflow server.
        TransferFailed: The server refuses, or does not answer.
        ExtraMissing: mlflow is not installed.
    """
    mlflow, errors = _open_client(access)
    client = mlflow.MlflowClient(tracking_uri=access.mlflow_uri)
    try:
        known = client.get_experiment_by_name(target.name)
        experiment = known.experiment_id if known else client.create_experiment(target.name)
        run = client.create_run(experiment, run_name=facts["name"] or facts["job_id"], tags=_build_tags(facts)).info
        for name, value in facts["metrics"].items():
            if isinstance(value, int | float):
                client.log_metric(run.run_id, name, float(value))
        for name, value in _build_parameters(facts).items():
            client.log_param(run.run_id, name, str(value)[:500])
        for path in files.values():
            client.log_artifact(run.run_id, str(path), FOLDER)
        client.log_text(run.run_id, model_card(facts), f"{FOLDER}/README.md")
        if registered_model:
            _register(client, registered_model, run, facts)
        client.set_terminated(run.run_id)
    except errors as error:
        raise TransferFailed(f"{target.text} did not accept the results: {_describe_error(error)}") from error
    return f"{access.mlflow_uri.rstrip('/')}/#/experiments/{experiment}/runs/{run.run_id}"


def _register(client: Any, name: str, run: Any, facts: Mapping[str, Any]) -> None:
    if not client.search_registered_models(filter_string=f"name = '{name}'"):
        client.create_registered_model(name)
    client.create_model_version(name, f"{run.artifact_uri}/{FOLDER}", run.run_id, tags=_build_tags(facts))


def _build_tags(facts: Mapping[str, Any]) -> dict[str, str]:
    return {
        "modelmill.job_id": str(facts["job_id"]),
        **({"modelmill.source": str(facts["source"])} if facts["source"] else {}),
    }


def _build_parameters(facts: Mapping[str, Any]) -> JsonObject:
    return {
        "toolchain": facts["toolchain"],
        **({"platform": facts["platform"]} if facts["platform"] else {}),
        **{f"preprocess.{name}": value for name, value in facts["preprocess"].items()},
    }


def _build_uri(source: Source) -> str:
    if source.kind is Kind.RUN:
        return f"runs:/{source.parts['run']}/{source.parts['path']}"
    return source.text


def _iterate_files(mlflow: Any, uri: str, tracking_uri: str) -> Iterator[Any]:
    """Yields all files below, with their sizes. A single file has nothing below it."""
    todo, count = [""], 0
    root = mlflow.artifacts.get_artifact_repository(uri, tracking_uri=tracking_uri)
    while todo:
        for entry in root.list_artifacts(todo.pop() or None):
            count += 1
            if count > MAX_FILES:
                raise BadSource(
                    f"{uri} has more than {MAX_FILES} files.", hint="Name the path of the model among them."
                )
            if entry.is_dir:
                todo.append(entry.path)
            else:
                yield entry


def _list_below(path: Path) -> list[Path]:
    return [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())


def _open_client(access: Access) -> tuple[Any, tuple[type[Exception], ...]]:
    if not access.mlflow_uri:
        raise SourceRefused(
            "This installation has no MLflow server.", hint="The operator can set MODELMILL_MLFLOW_TRACKING_URI."
        )
    if access.mlflow_token:
        os.environ["MLFLOW_TRACKING_TOKEN"] = access.mlflow_token
    os.environ.setdefault("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "2")
    os.environ["MLFLOW_ENABLE_ARTIFACTS_PROGRESS_BAR"] = "false"
    try:
        import mlflow
        import mlflow.artifacts
        import requests
    except ImportError as error:
        hint = "pip install 'modelmill[mlflow]'"
        raise ExtraMissing("The client of MLflow is not installed here.", hint=hint) from error
    mlflow.set_tracking_uri(access.mlflow_uri)
    _stay_on(access.mlflow_uri.rstrip("/"))
    return mlflow, (mlflow.exceptions.MlflowException, requests.RequestException, OSError, ValueError)


def _stay_on(server: str) -> None:
    """Limits this process to files that the server itself serves. The server stores where artifacts are, and whoever
    may write there could name a folder of this machine, or another host."""
    from mlflow.store.artifact import artifact_repository_registry as registry
    from mlflow.store.artifact.mlflow_artifacts_repo import MlflowArtifactsRepository

    def served(artifact_uri: str, tracking_uri: str | None = None, registry_uri: str | None = None) -> Any:
        if artifact_uri.startswith("mlflow-artifacts:"):
            repository = MlflowArtifactsRepository(artifact_uri, tracking_uri, registry_uri)
            if repository.artifact_uri.startswith(f"{server}/"):
                return repository
        raise SourceRefused(
            "Its artifacts do not lie with the MLflow server itself, and nothing is fetched from or put elsewhere.",
            hint="Start the server with --serve-artifacts, and let runs have its artifact location.",
        )

    known: Any = registry._artifact_repository_registry  # there is no other way to list all schemes
    for scheme in known.get_registered_artifact_repositories().keys() - WRAPPERS:
        known.register(scheme, served)


def _describe_error(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:300]
