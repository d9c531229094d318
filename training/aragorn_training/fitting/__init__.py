"""Train a network for any task: recipes, the training loop, its saved state, and checkpoints."""
