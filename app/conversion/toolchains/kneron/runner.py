"""Runs one stage inside the vendor's interpreter: one JSON request file in, one JSON result file out.

A stand-alone script: standard library, numpy, onnx and ktc only, in the syntax and library of Python 3.7, because the
image's interpreters are old. It must not import this product. What it prints goes to the stage log, as ktc's own does.
Usage: python runner.py REQUEST.json
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import shutil
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

WALK_LIMIT = 20000
TRACEBACK_LINES = 40
PHASE_MARK = "[modelmill] phase "


class NoOutput(Exception):
    """The toolchain came back without an error, but also without its file."""


def split_arguments(function: Callable[..., Any], named: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """Split arguments into those the installed function takes and the names of those it does not."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return named, []
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values()):
        return named, []
    return {key: named[key] for key in named if key in parameters}, sorted(set(named) - set(parameters))


def is_filled(path: str) -> bool:
    return os.path.isfile(path) and not os.path.islink(path) and os.path.getsize(path) > 0


def files_under(folder: str) -> Iterator[str]:
    """Files below a folder, at most WALK_LIMIT of them."""
    seen = 0
    for place, _, names in os.walk(folder):
        for name in names:
            seen += 1
            if seen > WALK_LIMIT:
                return
            yield os.path.join(place, name)


class Run:
    """One request being worked on, and what has come of it so far."""

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.started = time.time()
        self.phase = "start"
        self.result: dict[str, Any] = {"ok": False, "dropped": [], "warnings": [], "versions": {}, "files": {}}

    def enter(self, phase: str) -> None:
        self.phase = phase
        print(PHASE_MARK + phase, flush=True)

    def warn(self, text: str) -> None:
        self.result["warnings"].append(text)

    def call(self, name: str, function: Callable[..., Any], *values: Any, **named: Any) -> Any:
        """Call a vendor function with the arguments it knows; note the others."""
        arguments, dropped = split_arguments(function, named)
        self.result["dropped"] += [{"call": name, "argument": argument} for argument in dropped]
        return function(*values, **arguments)

    def write(self, ok: bool) -> None:
        """Put the result in place in one step, so that a reader never sees half of it."""
        self.result["ok"] = ok
        self.result["phase"] = self.phase
        target = self.request["result"]
        with open(target + ".part", "w", encoding="utf-8") as file:
            json.dump(self.result, file)
        os.replace(target + ".part", target)

    def candidates(self, ending: str) -> Iterator[str]:
        """Files of this name ending that appeared since the start: the output folder first, then known other places."""
        for folder in [self.request["output_dir"], self.request["scratch"]] + self.request["search"]:
            fresh = []
            for path in files_under(folder):
                with contextlib.suppress(OSError):
                    # One second of grace: some file systems keep whole seconds.
                    if path.endswith(ending) and is_filled(path) and os.path.getmtime(path) >= self.started - 1:
                        fresh.append((os.path.getmtime(path), path))
            for _, path in sorted(fresh, reverse=True):
                yield path

    def take(self, returned: Any, ending: str) -> str:
        """Copy the file the vendor returned to the requested place; search for it when it is not where it should be."""
        path = returned if isinstance(returned, str) else ""
        if not path or not is_filled(path):
            path = next(self.candidates(ending), "")
            if not path:
                raise NoOutput("no %s file was written (returned: %r)" % (ending, returned))
            self.warn("the output was not where the toolchain said, but at " + path)
        if os.path.abspath(path) != os.path.abspath(self.request["output"]):
            shutil.copyfile(path, self.request["output"])
        self.result["vendor_name"] = os.path.basename(path)
        return path

    def keep(self, name: str, ending: str) -> None:
        """Copy a side file (report, log) beside the result, when there is one."""
        path = next(self.candidates(ending), "")
        if path:
            target = os.path.join(self.request["keep"], name)
            shutil.copyfile(path, target)
            self.result["files"][name] = target

    def keep_reports(self) -> None:
        self.keep("model_fx_report.json", "model_fx_report.json")
        self.keep("model_fx_report.html", "model_fx_report.html")


def load_ktc(run: Run) -> Any:
    run.enter("import")
    import ktc

    return ktc


def note_versions(run: Run) -> None:
    run.result["versions"]["vendor_python"] = sys.version.split()[0]
    for name in ("numpy", "onnx", "ktc", "kneronnxopt"):
        version = getattr(sys.modules.get(name), "__version__", None)
        if version:
            run.result["versions"][name] = str(version)


def configure(run: Run, ktc: Any, **source: str) -> Any:
    """A ModelConfig over an ONNX or a BIE file."""
    request = run.request
    identity = (request["model_id"], request["version"], request["platform"])
    return run.call("ModelConfig", ktc.ModelConfig, *identity, **source, **request["arguments"]["config"])


def run_onnx(run: Run) -> None:
    ktc = load_ktc(run)
    import onnx

    model = onnx.load(run.request["input"])
    try:
        import kneronnxopt

        optimizer, name = kneronnxopt.optimize, "kneronnxopt.optimize"
        if inspect.ismodule(optimizer):  # once its command line was imported, the module hides the function
            optimizer = optimizer.optimize
    except ImportError:
        optimizer, name = ktc.onnx_optimizer.onnx2onnx_flow, "ktc.onnx_optimizer.onnx2onnx_flow"
        run.warn("kneronnxopt is not installed; the older ktc.onnx_optimizer was used")
    note_versions(run)
    run.enter("optimize")
    optimized = run.call(name, optimizer, model, **run.request["arguments"]["optimize"])
    onnx.save(optimized, run.request["output"])
    run.result["optimizer"] = name
    if not is_filled(run.request["output"]):
        raise NoOutput("the optimizer wrote an empty model")
    run.result["evaluation"] = "died"
    run.write(ok=True)  # from here on the stage has its output, whatever the evaluator does
    evaluate(run, ktc)


def evaluate(run: Run, ktc: Any) -> None:
    """The IP evaluator's estimate; it may fail, for the model is already there."""
    run.enter("evaluate")
    try:
        config = configure(run, ktc, onnx_path=run.request["output"])
        text = run.call(
            "evaluate", config.evaluate, output_dir=run.request["output_dir"], **run.request["arguments"]["evaluate"]
        )
        run.result["evaluation"] = "done"
        run.result["evaluate_text"] = str(text or "")[:20000]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001  # the vendor leaves by sys.exit() too
        traceback.print_exc()
        run.result["evaluation"] = "failed"
        run.warn("the IP evaluator failed: " + describe(error))
    run.keep_reports()


def load_calibration(paths: dict[str, list[str]]) -> dict[str, list[Any]]:
    """{input name: [float32 array, ...]}, mapped from disk so that many samples need little memory."""
    import numpy

    return {name: [numpy.asarray(numpy.load(path, mmap_mode="c")) for path in paths[name]] for name in paths}


def run_bie(run: Run) -> None:
    ktc = load_ktc(run)
    note_versions(run)
    mapping = load_calibration(run.request["calibration"])
    config = configure(run, ktc, onnx_path=run.request["input"])
    run.enter("analysis")
    returned = run.call(
        "analysis",
        config.analysis,
        mapping,
        output_dir=run.request["output_dir"],
        **run.request["arguments"]["analysis"],
    )
    run.keep_reports()
    run.take(returned, ".bie")


def run_nef(run: Run) -> None:
    ktc = load_ktc(run)
    note_versions(run)
    config = configure(run, ktc, bie_path=run.request["input"])
    run.enter("compile")
    returned = run.call(
        "compile", ktc.compile, [config], output_dir=run.request["output_dir"], **run.request["arguments"]["compile"]
    )
    run.keep_reports()
    run.keep("ioinfo.json", "_ioinfo.json")
    run.keep("fw_info.txt", "fw_info.txt")
    run.take(returned, ".nef")


STAGES = {"ONNX": run_onnx, "BIE": run_bie, "NEF": run_nef}


def describe(error: BaseException) -> str:
    return "%s: %s" % (type(error).__name__, error)


def main(argv: list[str]) -> int:
    with open(argv[1], encoding="utf-8") as file:
        run = Run(json.load(file))
    os.chdir(run.request["scratch"])
    try:
        STAGES[run.request["stage"]](run)
        run.write(ok=True)
        return 0
    except BaseException as error:  # noqa: BLE001  # the process edge: SystemExit of the simulator is a failure as well
        traceback.print_exc()
        lines = traceback.format_exc().splitlines()[-TRACEBACK_LINES:]
        run.result.update(type=type(error).__name__, message=str(error), traceback=lines)
        run.write(ok=False)
        return 1
    finally:
        os.chdir(run.request["scratch"])


if __name__ == "__main__":
    # This folder holds modules of the product (report.py, operators.py) that must not hide the vendor's.
    here = os.path.dirname(os.path.abspath(__file__))
    sys.path[:] = [place for place in sys.path if os.path.abspath(place or ".") != here]
    sys.exit(main(sys.argv))
