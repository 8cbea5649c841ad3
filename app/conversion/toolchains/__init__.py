"""Toolchains, which turn a model into the next artifact. See `base` for the contract, `sandbox` for the child
process."""
