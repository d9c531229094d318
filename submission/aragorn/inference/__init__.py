"""Run networks: checkpoints, batching, devices and precision."""
