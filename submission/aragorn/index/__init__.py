"""Indexes of a collection: terms, conclusions, latent terms and vectors."""
