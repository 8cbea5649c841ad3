"""hf:// — a repository of Hugging Face's hub, or of a server that answers as it does."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.exchange.errors import REACH_HINT, BadSource, SourceRefused, TransferFailed
from app.exchange.model import ENDINGS, Source, Target
from app.exchange.transfer.model_card import model_card
from app.exchange.transfer.protocol import Access, Fetched, Progress
from app.kit.errors import ExtraMissing
from app.kit.text.untrusted_json import read_json

CARD = "README.md"
NAMED_AT_MOST = 8
REFUSALS = {
    401: "the token is refused, or there is none",
    403: "this token may not do that",
    404: "there is no such repository or file, or the token may not see it",
}


def fetch(source: Source, folder: Path, access: Access, progress: Progress) -> Fetched:
    """Fetch the file that is named, or the only model there is; weights beside it come with it.

    Args:
        folder: takes the files.
        access: which repositories are allowed, and the Hub's token.
        progress: hears of each file; raises when they are too many bytes.

    Raises:
        BadSource: No model in it, or several and none is named.
        SourceRefused: The operator does not allow the repository.
        SourceTooLarge: By the sizes that the Hub tells.
        TransferFailed: The Hub refuses, or does not answer.
        ExtraMissing: huggingface_hub is not installed.
    """
    repo, revision = source.parts["repo"], source.parts.get("revision")
    if not any(fnmatchcase(repo, pattern) for pattern in access.hub_repositories):
        raise SourceRefused(
            f"This installation does not fetch models from the repository {repo}.",
            hint="The operator can allow repositories with MODELMILL_SOURCE_HF_REPOSITORIES.",
        )
    api, errors = _open_api(access)
    try:
        info = api.model_info(repo, revision=revision, files_metadata=True)
        sizes = {file.rfilename: file.size or 0 for file in info.siblings or ()}
        chosen = _choose_file(source, sizes)
        beside = [name for name in sizes if name != chosen and name.startswith(chosen) and not name.endswith(ENDINGS)]
        progress.expect(sizes[chosen] + sum(sizes[name] for name in beside))
        paths = {}
        for name in (chosen, *beside):
            path = api.hf_hub_download(repo, name, revision=info.sha or revision, local_dir=folder)
            progress.add(Path(path).stat().st_size)
            paths[name] = Path(path)
    except errors as error:
        raise _failure(f"{source.text} could not be fetched", error, access) from error
    return Fetched(paths.pop(chosen), {name.rpartition("/")[2]: path for name, path in paths.items()})


def push(target: Target, files: Mapping[str, Path], facts: Mapping[str, Any], access: Access) -> str:
    """Push all files and a model card in one commit; a repository that is not there is made, a private one. The
    metadata of a card that is there stay.

    Args:
        files: path on this machine by name in the repository.
        facts: about the job, for the model card.

    Returns:
        The page of the repository.

    Raises:
        TransferFailed: The Hub refuses, or does not answer.
        ExtraMissing: huggingface_hub is not installed.
    """
    from huggingface_hub import CommitOperationAdd

    api, errors = _open_api(access)
    try:
        api.create_repo(target.name, exist_ok=True, repo_type="model", private=True)
        card = model_card(facts, _read_card(api, target.name))
        operations = [
            CommitOperationAdd(CARD, card.encode()),
            *(CommitOperationAdd(name, str(path)) for name, path in files.items()),
        ]
        api.create_commit(
            target.name, operations, commit_message=f"{facts['name'] or facts['job_id']}, converted by Modelmill"
        )
    except errors as error:
        raise _failure(f"{target.text} did not accept the results", error, access) from error
    return f"{access.hub_endpoint.rstrip('/')}/{target.name}"


def _read_card(api: Any, repo: str) -> str:
    """Returns the card of a repository; empty if it has none."""
    from huggingface_hub.errors import EntryNotFoundError, RevisionNotFoundError

    with TemporaryDirectory() as folder:
        try:
            path = api.hf_hub_download(repo, CARD, local_dir=folder)
        except (EntryNotFoundError, RevisionNotFoundError):  # the latter as long as nothing was pushed
            return ""
        return Path(path).read_text(encoding="utf-8", errors="replace")


def _open_api(access: Access) -> tuple[Any, tuple[type[Exception], ...]]:
    try:
        import httpx2  # the client that huggingface_hub sends its requests with
        from huggingface_hub import HfApi
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        hint = "pip install 'modelmill[hub]'"
        raise ExtraMissing("The library of the hub is not installed here.", hint=hint) from error
    errors = (HfHubHTTPError, httpx2.HTTPError, OSError, ValueError)
    return HfApi(endpoint=access.hub_endpoint, token=access.hub_token or False), errors


def _choose_file(source: Source, sizes: Mapping[str, int]) -> str:
    models = sorted(name for name in sizes if name.endswith(ENDINGS))
    named = source.parts.get("file")
    if named:
        if named not in sizes:
            raise BadSource(f"{source.parts['repo']} has no file {named}.", hint=_join_names(models))
        return named
    if len(models) == 1:
        return models[0]
    which = "no model" if not models else f"{len(models)} models"
    raise BadSource(f"{source.parts['repo']} has {which} that could be converted.", hint=_join_names(models))


def _join_names(models: list[str]) -> str:
    if not models:
        return f"Its models would end in {', '.join(ENDINGS)}."
    more = f" and {len(models) - NAMED_AT_MOST} more" if len(models) > NAMED_AT_MOST else ""
    return f"Name one with a colon: {', '.join(f':{name}' for name in models[:NAMED_AT_MOST])}{more}."


def _failure(what: str, error: Exception, access: Access) -> TransferFailed:
    from httpx2 import TransportError

    if isinstance(error, TransportError):
        return TransferFailed(f"{what}: {access.hub_endpoint} cannot be reached ({error})", hint=REACH_HINT)
    return TransferFailed(f"{what}: {_describe_error(error)}")


def _describe_error(error: Exception) -> str:
    """Returns the first line of an error, or the server's own words if there are any."""
    response = getattr(error, "response", None)
    status = getattr(response, "status_code", None)
    if status in REFUSALS:
        return REFUSALS[status]
    try:
        return str(read_json(response.text)["error"])[:300]  # type: ignore[union-attr]  # None raises, too
    except (AttributeError, ValueError, KeyError, TypeError):
        return (str(error) or type(error).__name__).splitlines()[0][:300]
