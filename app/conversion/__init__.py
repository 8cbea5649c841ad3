"""ONNX → BIE → NEF: the pipeline that converts a model for an edge NPU."""
