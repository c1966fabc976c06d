"""From a backbone and a loss to a training module."""
