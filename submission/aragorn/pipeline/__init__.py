"""Define sessions, collections, retrievals, and the base classes of components and stages."""
