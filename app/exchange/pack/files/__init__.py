"""Files that go into a pack as they are. They know nothing of this product and need NumPy, onnxruntime or kp alone."""
