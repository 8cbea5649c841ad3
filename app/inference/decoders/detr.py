"""DETR and its successors: for each query a box 1×N×4 and logits 1×N×C. Nothing is suppressed.

Box: center and sides in 0..1 of the input. DETR and YOLOS: softmax over the classes and, in the last column, "no
object"; the best class of a query counts. RT-DETR, D-FINE, RF-DETR and Deformable DETR: a sigmoid for each class; the
best pairs of query and class count, as many as there are queries. Up to 125 queries are usual for the first kind, 300
or 900 for the second. RT-DETR's usual export is post-processed: labels, boxes in pixels, scores.
Source: models/detr.py of facebookresearch/detr, Apache-2.0; rtdetrv2_pytorch/src/zoo/rtdetr/rtdetr_postprocessor.py of
lyuwenyu/RT-DETR, Apache-2.0 (formats alone).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np

from app.inference.decoders.base import Detections, Detector, Outputs, OutputSpec, box_and_score_ports
from app.inference.decoders.class_names import COCO, COCO_BY_NUMBER
from app.inference.decoders.grids import corners_of
from app.inference.decoders.post_processed import post_processed, roles_of, rows_of
from app.inference.decoders.scores import find_scored_pairs, shares_of
from app.inference.prediction import Decoder
from app.inference.preprocess_options import Preprocess
from app.inference.preprocessing import Size

MOST_QUERIES = 1000
EXCLUSIVE_QUERIES = 199
"""Models with more queries have a sigmoid for each class."""
USUAL_QUERIES = frozenset({100, 300, 900})
IMAGENET = Preprocess(color="RGB", mean=(0.485, 0.456, 0.406), std=(0.229, 0.224, 0.225))


class Detr(Detector):
    """DETR and YOLOS: one class for each query, by a softmax with a column for "no object"."""

    name: ClassVar[Decoder] = Decoder.DETR
    preprocess: ClassVar[Preprocess] = IMAGENET
    usual_size: ClassVar[Size] = (800, 800)
    is_exclusive: ClassVar[bool] = True
    """Softmax, and the last column means that there is no object."""

    def usual_labels(self, ports: Sequence[OutputSpec]) -> tuple[str, ...]:
        pair = box_and_score_ports(ports)
        columns = ((pair[1].shape[2] if pair else None) or 0) - self.is_exclusive
        return {len(names): names for names in (COCO, COCO_BY_NUMBER)}.get(columns, ())

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        pair = box_and_score_ports(ports)
        return pair is not None and (pair[0].shape[1] or 0) <= MOST_QUERIES

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        boxes, scores = box_and_score_ports(ports) or ports
        rows = boxes.shape[1]
        if rows is None:
            return not self.is_exclusive and _are_named(boxes, scores)
        is_face_detector = scores.shape[-1] == 2  # or a detector of one class, which only its names show
        is_usual = (rows in USUAL_QUERIES and not is_face_detector) or _are_named(boxes, scores)
        return is_usual and (rows <= EXCLUSIVE_QUERIES) == self.is_exclusive

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        pair = box_and_score_ports([OutputSpec(name, values.shape) for name, values in outputs.items()])
        boxes, logits = (outputs[port.name][0].astype(np.float32) for port in pair or ())
        shares = shares_of(logits, is_exclusive=self.is_exclusive)
        shares = shares[:, :-1] if self.is_exclusive else shares
        if self.is_exclusive:
            labels = shares.argmax(axis=1)
            chosen = np.flatnonzero(shares.max(axis=1) >= floor)
            labels = labels[chosen]
        else:
            chosen, labels = find_scored_pairs(shares, floor)
            best = np.argsort(-shares[chosen, labels], kind="stable")[: len(boxes)]
            chosen, labels = chosen[best], labels[best]
        corners = corners_of(boxes[chosen, :2], boxes[chosen, 2:]) * np.array(size * 2, dtype=np.float32)
        return Detections(corners, shares[chosen, labels], labels, is_final=True)


class Rtdetr(Detr):
    """RT-DETR, D-FINE, RF-DETR and Deformable DETR: a sigmoid for each class of a query."""

    name: ClassVar[Decoder] = Decoder.RTDETR
    preprocess: ClassVar[Preprocess] = Preprocess(color="RGB")
    usual_size: ClassVar[Size] = (640, 640)
    is_exclusive: ClassVar[bool] = False

    def fits(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        roles = roles_of(ports)
        return (roles is not None and not roles.is_tensorflow) or super().fits(ports, size)

    def is_typical(self, ports: Sequence[OutputSpec], size: Size) -> bool:
        roles = roles_of(ports)
        return rows_of(ports, roles) == (True, 300) if roles else super().is_typical(ports, size)

    def find(self, outputs: Outputs, size: Size, floor: float) -> Detections:
        roles = roles_of([OutputSpec(name, values.shape) for name, values in outputs.items()])
        if roles is None:
            return super().find(outputs, size, floor)
        return post_processed(outputs, replace(roles, first_class=0), size, floor)


def _are_named(boxes: OutputSpec, scores: OutputSpec) -> bool:
    return bool(re.search("box|dets", boxes.name) and re.search("logits|labels", scores.name))
