"""Modelmill: from a trained network to an edge NPU."""

import os

# onnxruntime reports to its maker what is run with it, from 1.31 on also on Linux, unless this is set before it loads:
# by a thread, an identity and a database in the home of whoever runs it. A deployment that wants that sets it to 0.
os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
