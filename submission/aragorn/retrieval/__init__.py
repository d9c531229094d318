"""Retrieve documents from lexical, dense and latent indexes."""
