"""Training: a module's parameters and states on the device, steps, epochs, checkpoints."""

from .checkpoint import CheckpointError as CheckpointError
from .loop import accuracy as accuracy
from .loop import fit as fit
from .progress import EpochReport as EpochReport
from .progress import Lines as Lines
from .progress import Reporter as Reporter
from .trainer import Trainer as Trainer
