"""Train checkpoints and evaluate runs offline; not part of the container image."""
