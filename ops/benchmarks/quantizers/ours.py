"""A child: the host toolchain without its service. `python -m ops.benchmarks.quantizers.ours REQUEST.json`"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

from app.conversion.model import Stage
from app.conversion.options import Options
from app.conversion.toolchains.base import OUTPUTS, REF_IMAGES, StageRequest
from app.conversion.toolchains.host.toolchain import HostToolchain


def main(path: str) -> None:
    """The request: {"float": out.onnx, "pictures": folder, "options", "threads", "output", "report"}."""
    request = json.loads(Path(path).read_text(encoding="utf-8"))
    output = Path(request["output"])
    folder = output.parent / f"work-{output.stem}"
    folder.mkdir()
    shutil.copyfile(request["float"], folder / OUTPUTS[Stage.ONNX])
    shutil.copytree(request["pictures"], folder / REF_IMAGES)
    options = Options.model_validate(request["options"])
    stage = StageRequest(Stage.BIE, folder, options, request["threads"])
    result = HostToolchain().run(stage, lambda fraction, text: None)
    shutil.move(result.output, output)
    Path(request["report"]).write_text(json.dumps(result.report), encoding="utf-8")
    shutil.rmtree(folder)


if __name__ == "__main__":
    main(sys.argv[1])
