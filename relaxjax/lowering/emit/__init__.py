"""Programs as plain JAX: source text that runs without this package."""

from .source import to_python as to_python
