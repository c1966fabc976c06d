"""A training on disk: checkpoints, and models that run without this package."""
