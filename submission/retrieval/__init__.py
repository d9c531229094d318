"""First-stage retrieval: lexical, dense and latent indexes."""
