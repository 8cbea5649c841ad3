"""Stand-in for the vendor's package. See README.md beside this package."""

import os

from ktc import onnx_optimizer
from ktc.compiler import combine_nef, compile, encrypt_compile
from ktc.config import ModelConfig, OldModelConfig

if os.environ.get("KTC_STANDIN_OLD"):
    ModelConfig = OldModelConfig

__version__ = "0.0.0-standin"
__all__ = ["ModelConfig", "combine_nef", "compile", "encrypt_compile", "onnx_optimizer"]
