"""What may be wrong with a program of PyTorch."""


class TorchArchiveError(ValueError):
    """A `.pt2` file is damaged, or was written by a release of PyTorch that is not read."""


class TorchImportError(ValueError):
    """A program of PyTorch does what has no counterpart here."""
