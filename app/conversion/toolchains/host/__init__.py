"""The host toolchain: ONNX → int8 QDQ ONNX → a zip this product can run. Open and complete, for onnxruntime on any
CPU and not for a Kneron chip. `toolchain` holds the stages; nodes know `runtime` alone, and load nothing else."""
