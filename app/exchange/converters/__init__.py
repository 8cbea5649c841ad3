"""Formats that become ONNX here, each by the converter of its makers. They run in the sandbox."""
