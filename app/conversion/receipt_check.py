"""Checks a file against its receipt, and the receipt against its signature. Works only on files, without a service."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from app.conversion.errors import ReceiptUnreadable
from app.conversion.model.receipt import NAME, NoStatement, Statement, read_statement
from app.kit.files import sha256_of
from app.kit.signatures import dsse
from app.kit.signatures.keys import NoKey, PublicKey

CHECK_FILE = "Give the receipt.json that was downloaded with the model."


class Outcome(StrEnum):
    SAME = "SAME"
    CHANGED = "CHANGED"
    """The receipt has a file of this name with other content."""
    NOT_IN_RECEIPT = "NOT_IN_RECEIPT"
    """It has neither its content nor its name."""


class Seal(StrEnum):
    """The result of checking the signature."""

    VALID = "VALID"
    BROKEN = "BROKEN"
    """The receipt was changed after it was signed."""
    OTHER_KEY = "OTHER_KEY"
    """It is signed, but not with the given key."""


@dataclass(frozen=True)
class Receipt:
    """A parsed receipt, whose trust is still to be checked."""

    envelope: dsse.Envelope
    statement: Statement
    own_key: PublicKey

    def seal(self, key: PublicKey | None) -> Seal:
        """
        Args:
            key: The required signer; None: check only that it was not changed since it was signed.
        """
        if not self.envelope.is_signed_by([self.own_key]):
            # Its payload, which names the key, may have been changed.
            return Seal.VALID if key is not None and self.envelope.is_signed_by([key]) else Seal.BROKEN
        return Seal.VALID if key is None or self.envelope.is_signed_by([key]) else Seal.OTHER_KEY


@dataclass(frozen=True)
class FileCheck:
    path: Path
    outcome: Outcome
    sha256: str
    name: str
    """Its name in the receipt; empty if it is not in it."""
    expected: str
    """Its digest in the receipt; empty if it is not in it."""


def read_receipt(path: Path) -> Receipt:
    """Reads a receipt.

    Raises:
        ReceiptUnreadable: It is something else.
        OSError: The file cannot be read.
    """
    try:
        envelope = dsse.from_bytes(path.read_bytes())
        statement = read_statement(envelope.payload)
        return Receipt(envelope, statement, PublicKey(statement.public_key))
    except (dsse.NoEnvelope, NoStatement, NoKey) as error:
        raise ReceiptUnreadable(f"{path} cannot be read as a receipt: {error}", hint=CHECK_FILE) from error


def read_key(text: str, source: str) -> PublicKey:
    """Reads a key in PEM.

    Args:
        source: Its origin, for the message.

    Raises:
        ReceiptUnreadable: It is not a receipt.
    """
    try:
        return PublicKey(text)
    except NoKey as error:
        hint = "Save what the service answers at /receipts/key, once, from a place that you trust."
        raise ReceiptUnreadable(f"{source} holds no key of receipts: {error}", hint=hint) from error


def check_file(path: Path, statement: Statement) -> FileCheck:
    """By its content first, because it may have been renamed."""
    sha256 = sha256_of(path)
    known = {**statement.inputs, **statement.subjects}
    same = [name for name, digest in known.items() if digest == sha256]
    if same:
        name = path.name if path.name in same else same[0]
        return FileCheck(path, Outcome.SAME, sha256, name, sha256)
    if path.name in known:
        return FileCheck(path, Outcome.CHANGED, sha256, path.name, known[path.name])
    return FileCheck(path, Outcome.NOT_IN_RECEIPT, sha256, "", "")


def files_in(folder: Path, statement: Statement) -> list[Path]:
    """The files of the receipt that are in the folder."""
    names = {**statement.inputs, **statement.subjects}
    return [folder / name for name in sorted(names) if (folder / name).is_file()]


def receipt_of(paths: Iterable[Path]) -> Path:
    """The default location of these files' receipt: beside the first, or in it if it is a folder."""
    first = next(iter(paths))
    return (first if first.is_dir() else first.parent) / NAME
