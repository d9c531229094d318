"""Train a network of any task: recipe, training loop, state, checkpoint."""
