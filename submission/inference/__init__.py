"""Inference: checkpoints, batching, devices and precision."""
