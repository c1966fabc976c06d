"""Training: a module's parameters and states on the device, steps, epochs, checkpoints."""

from relaxjax.autodiff.out_of_memory import OutOfMemoryError as OutOfMemoryError

from .callbacks import Callback as Callback
from .callbacks import EarlyStopping as EarlyStopping
from .callbacks import JsonLines as JsonLines
from .callbacks import TensorBoard as TensorBoard
from .checkpoints import Checkpoints as Checkpoints
from .devices.communication import CommunicationReport as CommunicationReport
from .devices.communication import Exchange as Exchange
from .devices.process_settings import keep_freed_memory as keep_freed_memory
from .devices.processes import ProcessesError as ProcessesError
from .fit_options import FitOptions as FitOptions
from .loop import fit as fit
from .metrics import Metric as Metric
from .metrics import accuracy as accuracy
from .metrics import evaluate as evaluate
from .metrics import evaluate_with_loss as evaluate_with_loss
from .metrics import top_k as top_k
from .numerics import NumericsError as NumericsError
from .plateau import ReduceLROnPlateau as ReduceLROnPlateau
from .reports.chart import Chart as Chart
from .reports.chart import Panel as Panel
from .reports.epoch_report import EpochReport as EpochReport
from .reports.history import History as History
from .reports.notebook import LiveCurve as LiveCurve
from .reports.progress import Lines as Lines
from .reports.progress import Reporter as Reporter
from .saving.checkpoint import CheckpointError as CheckpointError
from .soundness import DivergedError as DivergedError
from .summary import LayerSummary as LayerSummary
from .summary import ModelSummary as ModelSummary
from .trainer import Trainer as Trainer
from .trainer import load_trainer as load_trainer
