"""preprocess.json as the constants of preprocess.c."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

TYPES = {
    "float32": ("float", 0, 0),
    "float64": ("double", 0, 0),
    "uint8": ("uint8_t", 0, 255),
    "int8": ("int8_t", -128, 127),
    "int16": ("int16_t", -32768, 32767),
    "uint16": ("uint16_t", 0, 65535),
    "int32": ("int32_t", -(2**31), 2**31 - 1),
}
HEADER = """\
#pragma once
#include <stdint.h>
typedef {type} input_t;
enum {{ WIDTH = {width}, HEIGHT = {height}, CHANNELS = {channels}, BATCH = {batch} }};
enum {{ NHWC = {nhwc}, BGR = {bgr}, LETTERBOX = {letterbox}, PAD_VALUE = {pad}, IS_INTEGER = {integer} }};
static const double SCALE = {scale!r}, LOWEST = {lowest}, HIGHEST = {highest};
static const double MEAN[] = {{{mean}}}, STD[] = {{{std}}};
int preprocess(const uint8_t *rgb, int width, int height, input_t *input);
"""


def c_header(data: Mapping[str, Any]) -> str:
    """preprocess.h. A float16 input is written as float: the caller narrows it.

    Args:
        data: preprocess.json.
    """
    kind, lowest, highest = TYPES.get(data["dtype"], TYPES["float32"])
    return HEADER.format(
        type=kind,
        width=data["width"],
        height=data["height"],
        channels=data["channels"],
        batch=data["batch"],
        nhwc=int(data["layout"] == "NHWC"),
        bgr=int(data["color"] == "BGR"),
        letterbox=int(data["resize"] == "letterbox"),
        pad=data["pad_value"],
        integer=int(lowest != highest),
        scale=float(data["scale"]),
        lowest=f"{lowest}.0",
        highest=f"{highest}.0",
        mean=", ".join(repr(float(value)) for value in data["mean"]),
        std=", ".join(repr(float(value)) for value in data["std"]),
    )
