"""Opens a model: chooses its runtime, its preprocessing and its decoder so that they fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from app.inference.decoders import ModelFamily, OutputSpec, family_of
from app.inference.decoders.classifier import may_be_probabilities
from app.inference.decoders.enclosed import EnclosedFamily
from app.inference.errors import InferenceFailed, ModelUnusable
from app.inference.model_card import ModelCard
from app.inference.prediction import Decoder
from app.inference.predictor import Predictor
from app.inference.predictor_options import BatchOptions, ExecutionProvider, PredictorOptions
from app.inference.preprocess_options import Preprocess, is_default, read_preprocess
from app.inference.preprocessing import Layout, Preprocessor, input_layout, preparation_of
from app.inference.runtimes import Runtime, Tensor, open_runtime
from app.inference.runtimes.micro_batches import BatchingRuntime, answers_alike

GREY = 127
"""Gray level of the picture on which a model is run when it is opened."""


def open_predictor(card: ModelCard, path: Path, twin: Path | None, options: PredictorOptions) -> Predictor:
    """Open a model and run it once, on a gray picture: that shows the shapes which the model leaves open, and warms it
    up.

    Args:
        path: the model's file.
        twin: the ONNX that it was made of; None: there is none.
        options: thresholds and threads.

    Raises:
        ModelUnusable: The file is damaged, an input takes no pictures, or no decoder understands the outputs. It has a
            hint.
    """
    runtime = open_runtime(card, path, twin, options.threads, options.provider)
    try:
        return _fit_predictor(runtime, card, options)
    except ModelUnusable as error:
        runtime.close()
        if runtime.provider is ExecutionProvider.CPU:
            raise
        predictor = open_predictor(card, path, twin, replace(options, provider=ExecutionProvider.CPU))
        predictor.why = f"{runtime.provider.display_name} cannot run it: {error.message}"
        return predictor
    except BaseException:
        runtime.close()
        raise


def _fit_predictor(runtime: Runtime, card: ModelCard, options: PredictorOptions) -> Predictor:
    named = options.decoder if options.decoder is not Decoder.AUTO else card.decoder
    if named is Decoder.ENCLOSED or (named is Decoder.AUTO and runtime.decoder_source):
        return _enclose(runtime, card, options)
    # If an input's sides are open, the family's are used; its outputs' shapes may be needed to recognize the family.
    is_open = None in runtime.input.shape[1:]
    size = options.input_size
    if is_open and 0 in size:
        size = family_of(named, _describe_ports(runtime.outputs), (0, 0)).usual_size
    layout = input_layout(runtime.input.shape, size)
    family = family_of(named, _describe_ports(runtime.outputs), layout.size)
    preparer = _make_preparer(runtime, layout, family, card, options)
    outputs = _try_runtime(runtime, preparer)
    ports = [OutputSpec(name, values.shape, values) for name, values in outputs.items()]
    seen = family_of(named, ports, layout.size)
    is_guess = seen.name is Decoder.CLASSIFIER and named is Decoder.AUTO and not card.labels
    doubt = _find_doubt(*outputs.values()) if is_guess else ""
    if seen is not family:
        preparer = _make_preparer(runtime, layout, seen, card, options)
    labels = card.labels or runtime.labels or seen.usual_labels(ports)
    runtime, why = _add_batching(runtime, preparer, options.batching)
    predictor = Predictor(runtime, preparer, seen, labels, options, doubt=doubt)
    predictor.why = "; ".join(filter(None, (predictor.why, why)))
    return predictor


def _enclose(runtime: Runtime, card: ModelCard, options: PredictorOptions) -> Predictor:
    """Opens a model with the decoder in its file, which has to read the outputs of a gray picture."""
    family = EnclosedFamily(runtime.decoder_source)
    try:
        sides = options.input_size if 0 not in options.input_size else family.usual_size
        layout = input_layout(runtime.input.shape, sides)
        preparer = _make_preparer(runtime, layout, family, card, options)
        family.find(_try_runtime(runtime, preparer), layout.size, 1.0)
        runtime, why = _add_batching(runtime, preparer, options.batching)
        predictor = Predictor(runtime, preparer, family, card.labels or family.labels or runtime.labels, options)
    except InferenceFailed as error:
        family.close()
        raise ModelUnusable(error.message, hint=error.hint) from error
    except BaseException:
        family.close()
        raise
    predictor.why = "; ".join(filter(None, (predictor.why, why)))
    return predictor


def _make_preparer(
    runtime: Runtime, layout: Layout, family: ModelFamily, card: ModelCard, options: PredictorOptions
) -> Preprocessor:
    usual = _choose_usual(family, runtime.preprocess)
    if runtime.input.dtype == "uint8" and usual == family.preprocess:
        usual = replace(usual, scale=1, mean=(0,), std=(1,))  # such a model prepares its pictures itself
    preparation = preparation_of(usual, _get_card_preprocess(card), options.preprocess)
    return Preprocessor(layout, runtime.input.dtype, preparation)


def _find_doubt(values: npt.NDArray[Any]) -> str:
    """Returns why a row of numbers looks like the output of a regressor instead of a classifier; empty if it does
    not."""
    row = values.reshape(values.shape[0], -1)[0].astype(np.float64)
    if may_be_probabilities(row):
        return ""
    return (
        f"the model answers {len(row)} numbers that are no probabilities, {row.min():.3g} to {row.max():.3g}: a "
        "classifier's logits, or something else's values"
    )


def _try_runtime(runtime: Runtime, preparer: Preprocessor) -> dict[str, npt.NDArray[Any]]:
    """Returns its outputs for a gray picture."""
    array, _ = preparer.prepare(np.full(preparer.layout.size[::-1], GREY, np.uint8))
    try:
        return dict(runtime.run(array))
    except InferenceFailed as error:
        raise ModelUnusable(error.message, hint=error.hint, detail=error.detail) from error


def _add_batching(runtime: Runtime, preparer: Preprocessor, batching: BatchOptions) -> tuple[Runtime, str]:
    """Returns the runtime, with micro-batching where it is chosen and possible, and why it is not."""
    if batching.most == 1:
        return runtime, ""
    if runtime.input.shape[0] is not None:
        return runtime, "one picture at a time: the batch dimension is fixed"
    noise = np.random.default_rng(0)
    pictures = [noise.integers(0, 256, preparer.layout.size[::-1], np.uint8) for _ in range(batching.most)]
    if answers_alike(runtime, [preparer.prepare(picture)[0] for picture in pictures]):
        return BatchingRuntime(runtime, batching), ""
    return runtime, "one picture at a time: several at once get other answers"


def _describe_ports(outputs: tuple[Tensor, ...]) -> list[OutputSpec]:
    return [OutputSpec(output.name, output.shape) for output in outputs]


def _get_card_preprocess(card: ModelCard) -> Mapping[str, Any]:
    """Returns the card's preprocessing; empty for a conversion without a chosen one."""
    return {} if card.toolchain and is_default(card.preprocess) else card.preprocess


def _choose_usual(family: ModelFamily, of_file: Mapping[str, Any]) -> Preprocess:
    """Returns the preprocessing of the conversion, or the family's if none was chosen."""
    if not of_file:
        return family.preprocess
    try:
        preparation = read_preprocess(of_file)
    except ValueError as error:
        raise ModelUnusable("the model's own preprocessing cannot be read", hint="Convert the model anew.") from error
    return family.preprocess if preparation == Preprocess() else preparation
