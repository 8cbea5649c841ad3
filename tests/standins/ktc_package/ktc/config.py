"""ModelConfig of the stand-in."""

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path

import numpy as np
import onnx

from ktc import reports
from ktc.failures import flow_table, provoke, wanted

PLATFORMS = ("520", "720", "530", "630", "730")
DATA_BITS = ("int8", "int16", "mix light", "mix balance", "mixbw")
BIE_MAGIC = b"STANDIN-BIE\n"
TENSOR = {"float64": "tensor(double)", "float32": "tensor(float)", "uint8": "tensor(uint8)", "int64": "tensor(int64)"}


class ModelConfig:
    def __init__(
        self,
        id,
        version,
        platform,
        onnx_model=None,
        onnx_path=None,
        bie_path=None,
        radix_json_path=None,
        compiler_config_path=None,
        debug=False,
        input_fmt=None,
    ):
        assert isinstance(id, int), "id must be int"
        assert re.fullmatch(r"[0-9a-fA-F]{4}", version), "version must be 4 hex digits"
        assert str(platform) in PLATFORMS, "unknown platform %r" % (platform,)
        assert sum(source is not None for source in (onnx_model, onnx_path, bie_path)) == 1, "exactly one model"
        for path in (onnx_path, bie_path):
            assert path is None or re.fullmatch(r"[A-Za-z0-9_./-]+", path), "special characters in %s" % path
            assert path is None or os.path.isfile(path), "%s does not exist" % path
        assert input_fmt is None or str(platform) == "730", "input_fmt is for 730"
        self.id, self.version, self.platform, self.input_fmt = id, version, str(platform), input_fmt
        self.onnx_path, self.bie_path, self.onnx_model = onnx_path, bie_path, onnx_model
        self.stem = Path(onnx_path or bie_path or "input.onnx").name.split(".")[0]

    def model(self):
        return self.onnx_model or onnx.load(self.onnx_path)

    def evaluate(
        self,
        output_dir="/data1/kneron_flow",
        datapath_bitwidth_mode="int8",
        weight_bitwidth_mode="int8",
        model_in_bitwidth_mode="int8",
        model_out_bitwidth_mode="int8",
        cpu_node_bitwidth_mode="int8",
        weight_bandwidth=None,
        dma_bandwidth=None,
        compiler_tiling="default",
    ):
        folder = _folder(output_dir)
        model = self.model()
        mode = provoke("evaluate", model)
        if mode == "dies_after":
            os.abort()
        if mode == "unsupported_op":
            print("WARNING: unsupported op [Softmax] node [softmax_0]")
        bits = _bits(datapath_bitwidth_mode, weight_bitwidth_mode, model_in_bitwidth_mode, model_out_bitwidth_mode,
                     cpu_node_bitwidth_mode)
        reports.write(folder, self.platform, bits, mode=mode)
        print('Success for model "%s/%s" when running "general/Success"' % (self.stem, self.stem))
        return "npu only fps: %g" % reports.FPS[self.platform]

    def analysis(
        self,
        input_mapping,
        output_dir="/data1/kneron_flow",
        threads=4,
        quantize_mode="default",
        datapath_range_method="percentage",
        percentage=0.999,
        percentage_16b=0.999999,
        percentile=0.001,
        outlier_factor=1.0,
        datapath_bitwidth_mode="int8",
        weight_bitwidth_mode="int8",
        model_in_bitwidth_mode="int8",
        model_out_bitwidth_mode="int8",
        cpu_node_bitwidth_mode="int8",
        const_in_bitwidth_mode="int16",
        flops_ratio=0.2,
        quan_config=None,
        compiler_tiling="default",
        mode=2,
        optimize=0,
        export_dynasty_dump=False,
        weight_bandwidth=None,
        dma_bandwidth=None,
    ):
        _check_values(quantize_mode, datapath_range_method, datapath_bitwidth_mode, percentage, percentage_16b, threads)
        folder, model = _folder(output_dir), self.model()
        stats = _check_mapping(input_mapping, model)
        bits = _bits(datapath_bitwidth_mode, weight_bitwidth_mode, model_in_bitwidth_mode, model_out_bitwidth_mode,
                     cpu_node_bitwidth_mode)
        if self.platform == "520" and set(bits.values()) != {"int8"}:
            print("hw not support int16")
            flow_table("knerex", self.platform)
            raise AssertionError("Quantization model generation failed. See above message for details.")
        print("run knerex on %d images with %d threads" % (len(next(iter(input_mapping.values()))), threads))
        way = provoke("analysis", model)
        if way == "stray_helper":
            subprocess.Popen(["sleep", "300"])
        snr = None if mode < 2 else (12.0 if way == "snr_low" else 33.25)
        if way == "snr_ladder" and snr is not None:
            mmse = 1.5 if datapath_range_method == "mmse" else 0.0
            snr = {"int8": 12.0, "mix light": 17.0, "mixbw": 18.0 + 8 * flops_ratio, "int16": 31.0}[datapath_bitwidth_mode] + mmse
        if way == "no_int8" and datapath_bitwidth_mode == "int8":
            provoke("analysis", {"standin.fail": "analysis:quantization"})
        reports.write(folder, self.platform, bits, mode=way, snr=snr)
        print('Success for model "%s/%s" when running "general/Success"' % (self.stem, self.stem))
        if mode == 0:
            return ""
        facts = {
            "platform": self.platform,
            "toolchain": reports.VERSION,
            "stem": self.stem,
            "metadata": {entry.key: entry.value for entry in model.metadata_props},
            "inputs": stats,
            "outputs": [value.name for value in model.graph.output],
            "threads": threads,
            "weights": hashlib.sha256(model.graph.SerializeToString(deterministic=True)).hexdigest(),
        }
        return _write_bie(folder, "%s.kdp%s.scaled.bie" % (self.stem, self.platform), facts, way)


class OldModelConfig(ModelConfig):
    """As in an older release: no newer arguments."""

    def __init__(self, id, version, platform, onnx_model=None, onnx_path=None, bie_path=None):
        super().__init__(id, version, platform, onnx_model, onnx_path, bie_path)

    def evaluate(self, output_dir="/data1/kneron_flow"):
        return super().evaluate(output_dir)

    def analysis(self, input_mapping, output_dir="/data1/kneron_flow", threads=4, mode=1):
        return super().analysis(input_mapping, output_dir, threads, mode=mode)


def read_bie(path):
    data = Path(path).read_bytes()
    if not data.startswith(BIE_MAGIC):
        raise RuntimeError("bie file cannot be decrypted")
    return json.loads(data[len(BIE_MAGIC) :])


def _folder(output_dir):
    assert os.path.isabs(output_dir), "output_dir must be absolute"
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _bits(datapath, weight, model_in, model_out, cpu):
    return {"input": model_in, "output": model_out, "cpu": cpu, "datapath": datapath, "weight": weight}


def _check_values(quantize_mode, method, datapath, percentage, percentage_16b, threads):
    if quantize_mode not in ("default", "post_sigmoid"):
        raise ValueError("quantize_mode %r" % quantize_mode)
    if method not in ("percentage", "mmse"):
        raise ValueError("datapath_range_method %r" % method)
    if datapath not in DATA_BITS:
        raise ValueError("datapath_bitwidth_mode %r" % datapath)
    if not 0.999 <= percentage <= percentage_16b <= 1:
        raise ValueError("percentage %r, percentage_16b %r" % (percentage, percentage_16b))
    if not isinstance(threads, int) or threads < 1:
        raise ValueError("threads %r" % threads)


def _check_mapping(mapping, model):
    """Keys, types and shapes as the vendor checks them; statistics of what came."""
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = [value for value in model.graph.input if value.name not in weights]
    stats = {}
    for value in inputs:
        if value.name not in mapping:
            print("Cannot find the corresponding input image folder of model input %s" % value.name)
            raise AssertionError("Quantization model generation failed. See above message for details.")
        shape = tuple(dim.dim_value for dim in value.type.tensor_type.shape.dim)
        digest, low, high = hashlib.sha256(), np.inf, -np.inf
        for array in mapping[value.name]:
            if array.dtype != np.float32:
                actual = TENSOR.get(str(array.dtype), str(array.dtype))
                raise RuntimeError("Unexpected input data type. Actual: (%s), expected: (tensor(float))" % actual)
            if array.shape != shape:
                raise RuntimeError("Got invalid dimensions for input: %s got %s expected %s" % (value.name, array.shape, shape))
            digest.update(np.ascontiguousarray(array).tobytes())
            low, high = min(low, float(array.min())), max(high, float(array.max()))
        count = len(mapping[value.name])
        stats[value.name] = {"shape": shape, "count": count, "sha256": digest.hexdigest(), "min": low, "max": high}
    if set(mapping) - set(stats):
        raise AssertionError("inputs %s are not in the model" % sorted(set(mapping) - set(stats)))
    if len({entry["count"] for entry in stats.values()}) != 1 or not next(iter(stats.values()))["count"]:
        raise AssertionError("every input needs the same number of images, at least one")
    return stats


def _write_bie(folder, name, facts, way):
    if way == "elsewhere":
        folder = Path(os.environ["KTC_STANDIN_STRAY"])
        (folder / name).write_bytes(BIE_MAGIC + json.dumps(facts, sort_keys=True).encode())
        return "/nowhere/" + name
    path = folder / name
    if way == "none":
        return None
    if way != "no_file":
        path.write_bytes(b"" if way == "empty" else BIE_MAGIC + json.dumps(facts, sort_keys=True).encode())
    return str(path)


__all__ = ["ModelConfig", "OldModelConfig", "read_bie", "wanted"]
