"""Are two outputs of the host toolchain the same network, whatever order their tools wrote its parts in?

onnxruntime numbers and orders constants as it likes, so the same work on the same versions may give other bytes. Here a
network is known by what it computes: each value by the operator that makes it and by the values that this reads.
"""

from app.conversion.toolchains.host.canonical.difference import compare_files
