"""What a user may choose for a conversion. Pure data: the same models are the API's schema and the domain's type."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from app.conversion.goals import BUDGET_S_MAX, DEFAULT_BUDGET_S, DEFAULT_GOAL, parse_goal
from app.inference.preprocess_options import Preprocess
from app.kit.text.json_values import JsonObject
from app.toolchain_names import ToolchainName

__all__ = [
    "Chip",
    "Frozen",
    "HostQuantization",
    "KneronOptions",
    "Options",
    "Preprocess",
    "ToolchainName",
    "bitwidth_problem",
]


class Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class Chip(StrEnum):
    """Kneron chips, by the `platform` text their toolchain uses."""

    KL520 = "520"
    KL720 = "720"
    KL530 = "530"
    KL630 = "630"
    KL730 = "730"


KNOBS = ("method", "percentile", "per_channel")
"""What a search for a goal decides by itself."""
NO_GOAL = "none"
BEST: Final = "best"
"""The default method of a conversion without a goal."""


def goal_or_knobs(values: Mapping[str, Any]) -> JsonObject:
    """The values of a quantization, without a goal where only knobs are turned: they would have no effect with one."""
    is_turned = "goal" not in values and any(values.get(knob) is not None for knob in KNOBS)
    return {**values, "goal": ""} if is_turned else dict(values)


def plain_goal(text: str) -> str:
    """Returns a goal as it is stored; "" for none.

    Raises:
        ValueError: The text is no goal; it names the valid forms.
    """
    return "" if text.strip().lower() in ("", NO_GOAL) else parse_goal(text).text


GoalText = Annotated[str, Field(max_length=40), AfterValidator(plain_goal)]


class QuantizationStep(Frozen):
    """A part of how a candidate of a search was made, as its report has it."""

    kind: Literal[
        "range",
        "equalization",
        "smoothing",
        "channel_splitting",
        "weight_rounding",
        "bias_correction",
        "boundary",
        "int16",
        "float",
    ]
    method: Literal["", "minmax", "p99.999", "mse", "mean", "p99.99", "entropy", "unit", "extremes"] = ""
    """Method of calibrating a range; "unit": 0 to 1, of a Softmax. Of int16, "extremes": ranges as they were seen, not
    four times as wide."""
    tensors: tuple[Annotated[str, Field(max_length=500)], ...] = Field(default=(), max_length=20_000)
    """Tensors that it concerns; none: all."""


class HostQuantization(Frozen):
    """int8 QDQ quantization by onnxruntime: as these options say, or as a search finds that reaches a goal."""

    goal: GoalText = DEFAULT_GOAL
    """ "snr>=20": search ranges and as few tensors in 16 bits as hold that at the worst output, on pictures that set no
    range; "drop<=1%" (percentage points of top-1 or mAP where labels were sent, else of the answers that are the float
    model's), "smallest" and "fastest" are searched in the same way. "none" or empty: no search, the options below
    decide, as they do where method, percentile or per_channel is given, and no goal."""
    budget_s: float | None = Field(default=None, gt=0, le=BUDGET_S_MAX)
    """Time limit of the search in seconds by the clock; after it, the best candidate so far is used. null: a multiple
    of the CPU time of the first candidate, so that a busy machine tries the same candidates."""
    report_images: str = Field(default="", max_length=200)
    """A folder of the archive of reference samples, such as "report": what lies in it neither calibrates nor chooses,
    and the result of the search is reported on it. Empty: some of all are set aside for that."""
    steps: tuple[QuantizationStep, ...] = Field(default=(), max_length=20)
    """How a candidate of an earlier search was made (search.candidates[].steps of its report). With a goal the search
    begins there, and goes on where that does not hold it; with the goal "none" exactly that is made."""
    method: Literal["best", "minmax", "percentile", "entropy"] = BEST
    """How ranges are chosen without a goal. "best": a few quantizations in 8 bits are made (ranges by four methods,
    channels equalized, weights rounded by second order, biases corrected), and the best on pictures that set no range
    is taken."""
    percentile: float = Field(default=99.999, gt=50, le=100)
    """Only for method percentile: share of activations that the range keeps, in percent."""
    per_channel: bool = True
    activation: Literal["int8", "uint8"] = "uint8"
    """As accurate as int8, and faster on CPUs without VNNI."""
    exclude_nodes: tuple[str, ...] = ()
    """Node names that stay in float."""
    saturation: bool = False
    """Also measure how many pictures are enough: some further calibrations, judged on pictures that set no range."""

    @property
    def is_by_method(self) -> bool:
        """Whether `method` decides; otherwise a search for a goal does, or steps do."""
        return not self.goal and not self.steps

    @model_validator(mode="before")
    @classmethod
    def _refuse_mixed_knobs(cls, values: Any) -> Any:
        return goal_or_knobs(values) if isinstance(values, dict) else values

    @model_validator(mode="after")
    def _refuse_knobs_with_goal(self) -> HostQuantization:
        turned = [knob for knob in KNOBS if getattr(self, knob) != type(self).model_fields[knob].default]
        if turned and not self.is_by_method:
            what = "a search for a goal decides" if self.goal else "steps decide"
            raise ValueError(f"{what} {', '.join(turned)}: leave out one of the two")
        if self.report_images and self.is_by_method:
            raise ValueError("report_images are what the result of a search is reported on: name a goal")
        return self


Bits816 = Literal["int8", "int16"]


class KneronOptions(Frozen):
    """Arguments of the vendor's ktc calls, by the vendor's names (toolchain v0.33.1)."""

    goal: GoalText = ""
    """ "snr>=20": go up the vendor's ladder from int8 to int16 until the SNR of its report holds that; "fastest" and
    "smallest" stay on its first rung. Empty: one run with the arguments below. Each rung is a whole run."""
    budget_s: float = Field(default=DEFAULT_BUDGET_S, gt=0, le=BUDGET_S_MAX)
    """Seconds after which no further rung is begun."""
    model_id: int = Field(default=32768, gt=32767, le=65535)
    version: str = Field(default="0001", pattern=r"^[0-9a-fA-F]{4}$")
    datapath_range_method: Literal["percentage", "mmse"] = "percentage"
    percentage: float = Field(default=0.999, ge=0.999, le=1.0)
    percentage_16b: float = Field(default=0.999999, ge=0.999, le=1.0)
    percentile: float = Field(default=0.001, gt=0, lt=1)
    outlier_factor: float = Field(default=1.0, ge=1)
    quantize_mode: Literal["default", "post_sigmoid"] = "default"
    datapath_bitwidth_mode: Literal["int8", "int16", "mix light", "mix balance", "mixbw"] = "int8"
    weight_bitwidth_mode: Literal["int8", "int16", "int4", "mix light", "mix balance", "mixbw"] = "int8"
    model_in_bitwidth_mode: Bits816 = "int8"
    model_out_bitwidth_mode: Bits816 = "int8"
    cpu_node_bitwidth_mode: Bits816 = "int8"
    const_in_bitwidth_mode: Literal["default", "int8", "int16"] = "default"
    """Of constant inputs; default: the vendor's own, int16 where the chip has it."""
    int16_nodes: tuple[str, ...] = ()
    """KL730 only: nodes of the optimized model that are computed in 16 bits (the vendor's quan_config)."""
    flops_ratio: float = Field(default=0.2, gt=0, le=1)
    compiler_tiling: Literal["default", "deep_search"] = "default"
    mode: Literal[1, 2, 3] = 1
    """1: quantize; 2: also check one image (SNR, bit-true match); 3: check all images, very slow."""
    optimize: int = Field(default=0, ge=0, le=4)
    opt_matmul: bool = False
    replace_avgpool_with_conv: bool = False
    replace_dilated_conv: bool = False
    skip_check: bool = False
    clear_shapes: bool = False
    input_fmt: str | None = Field(default=None, pattern=r"^[A-Z0-9_]{1,32}$")
    """Input format, KL730 only."""
    weight_compress: bool = False


class Options(Frozen):
    """All options of one conversion."""

    toolchain: ToolchainName = ToolchainName.HOST
    platform: Chip | None = None
    """The chip, for toolchain kneron; must be left out for host."""
    input_shapes: dict[str, tuple[Annotated[int, Field(gt=0)], ...]] = Field(default_factory=dict)
    """Fixed shapes for inputs with dynamic axes, by input name, batch included: {"input": [1, 3, 224, 224]}."""
    preprocess: Preprocess = Preprocess()
    quantization: HostQuantization = HostQuantization()
    """For toolchain host."""
    kneron: KneronOptions = KneronOptions()
    """For toolchain kneron."""
    allow_damaged_images: bool = False
    """Whether images that cannot be read are skipped; otherwise the job is refused."""

    @model_validator(mode="after")
    def _check_chip(self) -> Options:
        if self.toolchain is ToolchainName.HOST and self.platform is not None:
            raise ValueError("platform is for toolchain kneron; leave it out for host")
        if self.toolchain is ToolchainName.KNERON:
            if self.quantization.report_images:
                raise ValueError("report_images are for toolchain host: the vendor's judges by itself")
            if self.platform is None:
                raise ValueError("toolchain kneron needs a platform: 520, 720, 530, 630 or 730")
            problem = bitwidth_problem(self.platform, self.kneron)
            if problem:
                raise ValueError(problem)
        return self


MIXBW_PAIRS = {("mixbw", "int16"), ("int16", "mixbw"), ("mixbw", "mixbw")}


def bitwidth_problem(chip: Chip, options: KneronOptions) -> str:
    """Say why these bit widths cannot be had on this chip; empty when they can.

    Source: vendor manual v0.33.1: int16 (and so every mix) not on 520, int4 not on 720, mixbw only in three pairs.
    """
    data, weight = options.datapath_bitwidth_mode, options.weight_bitwidth_mode
    sides = (options.model_in_bitwidth_mode, options.model_out_bitwidth_mode, options.cpu_node_bitwidth_mode)
    is_8, is_newest = chip is Chip.KL520, chip is Chip.KL730
    problems = {
        "chip 520 knows int8 only: set every bit width to int8": is_8 and {data, weight, *sides} != {"int8"},
        "chip 520 knows int8 only: leave const_in_bitwidth_mode to default": is_8
        and options.const_in_bitwidth_mode == "int16",
        "chip 720 has no int4 weights: use int8 or int16": chip is Chip.KL720 and weight == "int4",
        "mixbw goes with mixbw or int16 on the other side (datapath, weight)": "mixbw" in (data, weight)
        and (data, weight) not in MIXBW_PAIRS,
        "percentage must not exceed percentage_16b": options.percentage > options.percentage_16b,
        "input_fmt is for chip 730 only": options.input_fmt is not None and not is_newest,
        "int16_nodes is for chip 730 only": bool(options.int16_nodes) and not is_newest,
    }
    return next((text for text, is_so in problems.items() if is_so), "")
