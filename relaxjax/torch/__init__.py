"""Models of PyTorch: programs that `torch.export` wrote, as modules that train here."""

from .errors import TorchArchiveError as TorchArchiveError
from .errors import TorchImportError as TorchImportError
from .model import ImportedModel as ImportedModel
from .model import from_torch as from_torch
