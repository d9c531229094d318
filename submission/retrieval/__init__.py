"""First-stage retrieval: lexical, dense and latent indexes."""

from __future__ import annotations
