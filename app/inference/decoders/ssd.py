"""SSD: boxes, scores and classes that the model has chosen (`post_processed`), or boxes and scores of all prior boxes.

All prior boxes: boxes 1×N×4 and scores 1×N×C with the background in the first column. The boxes are corners in 0..1,
or offsets to the prior boxes (`ssd_priors`) of a network that N and the size of the input show. Scores outside of 0..1
are logits. Every class of a box counts. Label 0 is the first class after the background.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec, box_and_score_ports
from app.inference.decoders.class_names import COCO, COCO_BY_NUMBER, VOC
from app.inference.decoders.grids import are_offsets, from_offsets
from app.inference.decoders.post_processed import pixels_of, post_processed, roles_of
from app.inference.decoders.scores import find_scored_pairs, shares_of
from app.inference.decoders.ssd_priors import prior_set
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Size

RAW = re.compile(r"raw_detection_(boxes|scores)")
"""TensorFlow's names of boxes and scores before suppression; the corners are y1, x1, y2, x2."""


class Ssd(Detector):
    name: ClassVar[Decoder] = Decoder.SSD
    preprocess: ClassVar[Preprocess] = Preprocess(color="RGB")
    usual_size: ClassVar[Size] = (300, 300)

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        pair = box_and_score_ports(ports)
        columns = pair[1].shape[2] if pair else None
        by_count = {len(names) + 1: names for names in (COCO, COCO_BY_NUMBER[1:], VOC)}
        return by_count.get(columns or 0, ())

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        return roles_of(ports) is not None or box_and_score_ports(ports) is not None

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        if roles_of(ports) is not None:
            return True
        boxes, scores = box_and_score_ports(ports) or ports
        if RAW.search(boxes.name) and RAW.search(scores.name):
            return True
        return prior_set(boxes.shape[1] or 0, scores.shape[2], size) is not None

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        ports = [OutputSpec(name, values.shape) for name, values in outputs.items()]
        roles = roles_of(ports)
        if roles is not None:
            return post_processed(outputs, roles, size, floor)
        boxes, scores = (outputs[port.name][0].astype(np.float32) for port in box_and_score_ports(ports) or ())
        known = prior_set(len(boxes), scores.shape[1], size)
        is_tensorflow = bool(known and known.is_tensorflow) or any(RAW.search(name) for name in outputs)
        shares = shares_of(scores, is_exclusive=not is_tensorflow)[:, 1:]
        chosen, labels = find_scored_pairs(shares, floor)
        picked = boxes[chosen]
        if is_tensorflow:
            picked = picked[:, [1, 0, 3, 2]]
        if known is not None and are_offsets(boxes):
            picked = from_offsets(picked, known.boxes[chosen])
        corners = pixels_of(picked, size)
        if known is not None and known.cuts_first:
            corners = np.clip(corners, 0, size * 2)
        return Detections(corners, shares[chosen, labels], labels)
