"""Compares two outputs of the host toolchain as networks, regardless of the order in which their parts were written.

onnxruntime numbers and orders constants freely, so the same work with the same versions may give other bytes. Here a
network is identified by what it computes: each value by the operator that produces it and by that operator's inputs.
"""

from app.conversion.toolchains.host.canonical.difference import compare_files
