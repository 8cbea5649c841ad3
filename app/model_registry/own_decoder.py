"""A decoder in the file of its model: Python text in the metadata of an ONNX. Here it is parsed, but never run."""

from __future__ import annotations

import ast
from pathlib import Path

from app.inference.errors import InvalidModel
from app.inference.prediction import ENCLOSED_DECODER, MOST_DECODER_SOURCE
from app.kit.errors import BadRequest
from app.kit.files import SHARED, write_whole

HINT = "It needs def decode(outputs, size, floor): see the documentation of decoders."


def store_decoder(model: Path, source: str) -> None:
    """Writes the text into the file, in place of an earlier one.

    Args:
        model: an ONNX; weights beside it stay there.
        source: Python.

    Raises:
        BadRequest: The text is not valid Python, has no function decode, or is too long.
        InvalidModel: The file is no ONNX.
        OSError: It cannot be written, and is unchanged.
    """
    check_decoder(source)
    import onnx

    try:
        loaded = onnx.load(str(model), load_external_data=False)
    except Exception as error:  # protobuf and onnx raise many kinds for a file that is something else
        raise InvalidModel(f"{model} is no ONNX model", hint="Name the model's file.") from error
    others = {entry.key: entry.value for entry in loaded.metadata_props if entry.key != ENCLOSED_DECODER}
    onnx.helper.set_model_props(loaded, {**others, ENCLOSED_DECODER: source})
    write_whole(model, loaded.SerializeToString(), mode=SHARED)


def check_decoder(source: str, name: str = "the decoder") -> None:
    """Checks the text as far as that is possible without running it.

    Raises:
        BadRequest: It is not valid Python, has no function decode, or is too long; the message begins with the name.
    """
    if len(source.encode()) > MOST_DECODER_SOURCE:
        raise BadRequest(f"{name} is longer than {MOST_DECODER_SOURCE >> 10} KiB", hint=HINT)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError) as error:
        place = f" in line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        problem = error.msg if isinstance(error, SyntaxError) else str(error)
        raise BadRequest(f"{name} is not valid Python: {problem}{place}", hint=HINT) from error
    if not any(isinstance(node, ast.FunctionDef) and node.name == "decode" for node in tree.body):
        raise BadRequest(f"{name} has no function decode", hint=HINT)
