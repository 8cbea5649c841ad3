"""`modelmill verify`: compares files with the receipt of their conversion. Offline."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from app.kit.cli.command import CommandFailed, Exit, Unreachable
from app.kit.cli.service_options import AsJson
from app.kit.cli.tables import print_record
from app.kit.errors import BadInput, BadRequest, NotFound
from app.kit.text.json_values import JsonObject

if TYPE_CHECKING:
    from app.conversion.receipt_check import FileCheck, Receipt, Seal
    from app.kit.signatures.keys import PublicKey

EPILOG = (
    "Exit codes: 0 all is as the receipt says · 1 a file or the receipt was changed, the receipt is not for a file, or "
    "another key signed it · 2 no receipt, or no key, could be read · 3 the key's address does not answer · "
    "4 there is no such file."
)
KEY_PATH = "/receipts/key"
TIMEOUT_S = 20


def verify(
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE…", help="The downloaded files, such as out.nef, or the folder of the results."),
    ],
    receipt: Annotated[
        Path | None, typer.Option(metavar="FILE", help="The receipt; default: receipt.json beside the first file.")
    ] = None,
    key: Annotated[
        str | None,
        typer.Option(
            metavar="FILE|URL",
            envvar="MODELMILL_RECEIPT_KEY",
            help="Public key that the signature must match: a file with the response of GET /receipts/key, or the "
            "address of the service. Without it, only changes since the signature are detected, not who "
            "signed.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check converted files against their signed receipt, and show what was changed. Needs no service."""
    from app.conversion.receipt_check import Outcome, Seal, check_file, read_receipt, receipt_of

    for file in files:
        _require(file, "file", hint="Check the path.")
    path = receipt or receipt_of(files)
    _require(path, "receipt", hint="Download it with the results, or name it with --receipt.")
    trusted = _load_key(key) if key else None
    try:
        read = read_receipt(path)
        checks = [check_file(file, read.statement) for file in _expand_folders(files, read)]
    except OSError as error:
        raise BadInput(f"{error.filename or path} cannot be read: {error.strerror}") from error
    seal = read.seal(trusted)
    text = "\n".join((_describe_seal(read, seal, trusted), *map(_describe_file, checks)))
    print_record(_as_json(read, seal, trusted, checks), text, as_json=as_json)
    if seal is not Seal.VALID or any(check.outcome is not Outcome.SAME for check in checks):
        raise CommandFailed(Exit.FAILED)


def _expand_folders(files: list[Path], read: Receipt) -> list[Path]:
    """A folder stands for those of its files that the receipt has."""
    from app.conversion.receipt_check import files_in

    named: list[Path] = []
    for file in files:
        inside = files_in(file, read.statement) if file.is_dir() else [file]
        if not inside:
            raise BadRequest(f"{file} has none of the files that the receipt names", hint="Name the folder of results.")
        named += inside
    return named


def _require(path: Path, what: str, *, hint: str) -> None:
    if not path.exists():
        raise NotFound(f"there is no {what} {path}", hint=hint)


def _load_key(source: str) -> PublicKey:
    from app.conversion.receipt_check import read_key

    if source.startswith(("http://", "https://")):
        return read_key(_fetch(source), source)
    path = Path(source)
    _require(path, "key", hint="A key is a file, or the address of the service that signed.")
    try:
        return read_key(path.read_text(encoding="utf-8", errors="replace"), source)
    except OSError as error:
        raise BadInput(f"the key {source} cannot be read: {error.strerror}") from error


def _fetch(address: str) -> str:
    import httpx

    url = httpx.URL(address)
    if url.path in ("", "/"):
        url = url.copy_with(path=KEY_PATH)
    try:
        answer = httpx.get(url, timeout=TIMEOUT_S, follow_redirects=False)
        answer.raise_for_status()
    except httpx.HTTPError as error:
        raise Unreachable(f"{url} gives no key: {error}", hint="Save the key once, and name the file.") from error
    return answer.text


def _describe_seal(read: Receipt, seal: Seal, trusted: PublicKey | None) -> str:
    from app.conversion.receipt_check import Seal

    job = f"job {read.statement.job_id}, finished {read.statement.finished_at}"
    signer = read.own_key.key_id[:16]
    if seal is Seal.BROKEN:
        return "receipt: CHANGED: its signature does not fit its content"
    if seal is Seal.OTHER_KEY:
        expected = trusted.key_id[:16] if trusted else ""
        return f"receipt: ANOTHER KEY: signed by {signer}, not by {expected} ({job})"
    if trusted is None:
        return f"receipt: signed by {signer} ({job}); --key makes sure whose key that is"
    return f"receipt: signed by {trusted.key_id[:16]}, the key given ({job})"


def _describe_file(check: FileCheck) -> str:
    from app.conversion.receipt_check import Outcome

    if check.outcome is Outcome.SAME:
        other = "" if check.name == check.path.name else f", which the receipt calls {check.name}"
        return f"{check.path}: as the receipt says{other}"
    if check.outcome is Outcome.CHANGED:
        return f"{check.path}: CHANGED: its SHA-256 is {check.sha256}, and the receipt says {check.expected}"
    return f"{check.path}: NOT IN THE RECEIPT: it is for another conversion, or the file is none of its files"


def _as_json(read: Receipt, seal: Seal, trusted: PublicKey | None, checks: list[FileCheck]) -> JsonObject:
    return {
        "job_id": read.statement.job_id,
        "finished_at": read.statement.finished_at,
        "signature": seal.value,
        "key_id": read.own_key.key_id,
        "is_key_given": trusted is not None,
        "files": [
            {
                "path": str(check.path),
                "outcome": check.outcome.value,
                "name": check.name,
                "sha256": check.sha256,
                "expected": check.expected,
            }
            for check in checks
        ],
    }
