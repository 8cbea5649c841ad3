"""Uploaded resources: YAML or JSON, one document or several. Whatever is sent, only the product's errors are raised."""

from __future__ import annotations

from typing import Any

from app.joint_inference.model.resource import LIST_KIND
from app.joint_inference.problems import Problem, refuse
from app.kit.errors import TooLarge
from app.kit.text.plain_yaml import UnreadableYaml, read_documents
from app.kit.text.untrusted_json import NestedTooDeeply, UnreadableJson, read_json

MAX_BYTES = 256 * 1024
MAX_DOCUMENTS = 100
MAX_PARTS = 20_000


def parse_document(text: str | bytes) -> Any:
    """Returns the only resource.

    Raises:
        TooLarge, InvalidResource: There is none, several, or an invalid one.
    """
    documents = parse_documents(text)
    if len(documents) > 1:
        refuse([Problem("$", f"there are {len(documents)} documents; one is taken here")])
    return documents[0]


def parse_documents(text: str | bytes) -> list[Any]:
    """Returns at least one resource; a List stands for its items.

    Raises:
        TooLarge, InvalidResource: It is not valid; the message says where.
    """
    read = _decode_text(text)
    documents = _parse_json(read) if read.lstrip().startswith("{") else _parse_yaml(read)
    resources = [item for document in documents for item in _list_items(document)]
    if not resources:
        refuse([Problem("$", "there is nothing in it")])
    return resources


def _decode_text(text: str | bytes) -> str:
    if len(text) > MAX_BYTES or len(text if isinstance(text, bytes) else text.encode("utf-8", "replace")) > MAX_BYTES:
        raise TooLarge(f"A resource may have {MAX_BYTES} bytes.", hint="Files of a worker belong into its folder.")
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            refuse([Problem("$", f"is not UTF-8: byte {error.start} does not belong")])
    assert isinstance(text, str)
    return text.removeprefix("\ufeff")


def _parse_yaml(text: str) -> list[Any]:
    try:
        return read_documents(text, most=MAX_DOCUMENTS, parts=MAX_PARTS)
    except UnreadableYaml as error:
        refuse([Problem("$", f"is not readable YAML: {error.message}")])
    raise AssertionError


def _parse_json(text: str) -> list[Any]:
    """Reads text that may be JSON; a flow mapping of YAML starts in the same way."""
    try:
        return [read_json(text)]
    except NestedTooDeeply:
        refuse([Problem("$", "is nested far too deep")])
    except UnreadableJson:
        return _parse_yaml(text)
    raise AssertionError


def _list_items(document: Any) -> list[Any]:
    if isinstance(document, dict) and document.get("kind") in ("List", LIST_KIND):
        items = document.get("items")
        return items if isinstance(items, list) else []
    return [document]
