"""ktc.compile and its neighbours of the stand-in."""

import json
import os
import sys
from pathlib import Path

from ktc import reports
from ktc.config import read_bie
from ktc.failures import provoke

sys.path.append(str(Path(__file__).resolve().parents[2]))
import nef_builder  # noqa: E402


def compile(
    model_list,
    output_dir="/data1/kneron_flow",
    dedicated_output_buffer=True,
    weight_compress=False,
    flatbuffer=True,
    compiler_tiling="default",
    weight_bandwidth=None,
    dma_bandwidth=None,
):
    assert os.path.isabs(output_dir), "output_dir must be absolute"
    if any(config.bie_path is None for config in model_list):
        raise ValueError("Currently, batch compile only support models after fix point analysis.")
    assert len({config.id for config in model_list}) == len(model_list), "model ids must differ"
    assert len({config.platform for config in model_list}) == 1, "one platform only"
    folder = Path(output_dir)
    folder.mkdir(parents=True, exist_ok=True)
    models, way, platform = [], "", model_list[0].platform
    for config in model_list:
        facts = read_bie(config.bie_path)
        if facts["platform"] != platform or facts["toolchain"] != reports.VERSION:
            raise RuntimeError("bie file of another platform or version")
        print('running "kdp%s/compiler frontend"' % platform)
        way = provoke("compile", facts["metadata"]) or way
        shape = next(iter(facts["inputs"].values()))["shape"]
        rows, columns = (shape[2], shape[3]) if len(shape) == 4 else (1, shape[-1])
        payload = facts["weights"].encode() + json.dumps(facts["inputs"], sort_keys=True).encode()
        models.append(
            nef_builder.Model(
                id=config.id,
                version=int(config.version, 16),
                name=config.stem,
                weight=payload,
                rows=rows,
                columns=columns,
                channels=shape[1],
            )
        )
        info = {"input": [{"name": name, "onnx_shape": entry["shape"]} for name, entry in facts["inputs"].items()]}
        (folder / ("%s_modelid_%d_ioinfo.json" % (config.stem, config.id))).write_text(json.dumps(info))
    print("running gen_nef")
    (folder / "fw_info.txt").write_text("Total [%d] models: %s" % (len(models), [model.id for model in models]))
    return _write(folder, platform, models, way)


def _write(folder, platform, models, way):
    path = folder / ("models_%s.nef" % platform)
    if way == "no_file":
        return str(path)
    chip = {"520": "720"}.get(platform, "520") if way == "other_chip" else platform
    changes = {"crc": 1} if way == "bad_crc" else {}
    schema = (0, 0, 1) if platform in ("520", "720") else (2, 2, 1)
    nef = nef_builder.Nef(
        chip=chip, models=tuple(models), schema=schema, toolchain=reports.VERSION + "\n", changes=changes
    )
    path.write_bytes({"empty": b"", "garbage": b"no nef at all" * 9}.get(way) if way in ("empty", "garbage") else nef_builder.build(nef))
    return str(path)


def encrypt_compile(model_list, output_dir="/data1/kneron_flow", dedicated_output_buffer=True, mode=None, key="",
                    key_file="", encryption_efuse_key="", weight_compress=False, flatbuffer=True,
                    compiler_tiling="default"):
    assert mode is None, "the stand-in encrypts nothing"
    return compile(model_list, output_dir, dedicated_output_buffer, weight_compress, flatbuffer, compiler_tiling)


def combine_nef(nef_list, output_path="/data1/combined"):
    raise NotImplementedError("not in the stand-in")
