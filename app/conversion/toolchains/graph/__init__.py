"""Facts of an ONNX graph: reading the file, inputs and outputs, operators, parameters, MACs, fixed shapes.

Imports onnx only, never onnxruntime: the web tier's sandbox and the vendor toolchain's adapter use it too.
"""

from app.conversion.toolchains.graph.facts import facts
from app.conversion.toolchains.graph.model_loader import PROTOBUF_BYTES_MAX, load, parse
from app.conversion.toolchains.graph.shapes import fix_shapes, skeleton
from app.conversion.toolchains.graph.specs import TensorSpec, graph_inputs, graph_outputs, opset_of
from app.conversion.toolchains.graph.versions import HOST, KNERON, ReadableVersions, fit_versions, refuse_versions
from app.conversion.toolchains.graph.walk import nodes, remove_weight_inputs, sort_nodes
