"""Training, where TVM has it."""

from . import loss as loss
from . import optimizer as optimizer
from . import utils as utils
from .setup_trainer import SetupTrainer as SetupTrainer
from .trainer import Trainer as Trainer
from .utils import AppendLoss as AppendLoss
