"""The older name of the optimizer."""

from onnx import shape_inference

from ktc.failures import provoke


def onnx2onnx_flow(m, opt_matmul=False, duplicate_shared_weights=False):
    provoke("optimize", m)
    print("ktc.onnx_optimizer: onnx2onnx_flow")
    return shape_inference.infer_shapes(m)
