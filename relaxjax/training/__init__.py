"""Training: a module's parameters and states on the device, steps, epochs, checkpoints."""

from relaxjax.autodiff.out_of_memory import OutOfMemoryError as OutOfMemoryError

from .callbacks import Callback as Callback
from .callbacks import EarlyStopping as EarlyStopping
from .callbacks import JsonLines as JsonLines
from .callbacks import TensorBoard as TensorBoard
from .chart import Chart as Chart
from .chart import Panel as Panel
from .checkpoint import CheckpointError as CheckpointError
from .checkpoints import Checkpoints as Checkpoints
from .communication import CommunicationReport as CommunicationReport
from .communication import Exchange as Exchange
from .epoch_report import EpochReport as EpochReport
from .fit_options import FitOptions as FitOptions
from .history import History as History
from .loop import fit as fit
from .metrics import Metric as Metric
from .metrics import accuracy as accuracy
from .metrics import evaluate as evaluate
from .metrics import evaluate_with_loss as evaluate_with_loss
from .metrics import top_k as top_k
from .notebook import LiveCurve as LiveCurve
from .numerics import NumericsError as NumericsError
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .process_settings import keep_freed_memory as keep_freed_memory
from .processes import ProcessesError as ProcessesError
from .progress import Lines as Lines
from .progress import Reporter as Reporter
from .soundness import DivergedError as DivergedError
from .summary import LayerSummary as LayerSummary
from .summary import ModelSummary as ModelSummary
from .trainer import Trainer as Trainer
from .trainer import load_trainer as load_trainer
