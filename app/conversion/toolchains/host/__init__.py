"""The host toolchain: ONNX → int8 QDQ ONNX → a zip that this product can run. Open and complete, for onnxruntime on any
CPU and not for a Kneron chip. `toolchain` has the stages; nodes use only `runtime`, and load nothing else."""
