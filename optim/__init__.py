"""Optimizers: rules that make new parameters, written out as Relax functions."""

from .adam import Adam as Adam
from .base import BoundOptimizer as BoundOptimizer
from .base import Optimizer as Optimizer
from .base import Step as Step
from .from_optax import OptaxOptimizer as OptaxOptimizer
from .from_optax import from_optax as from_optax
from .momentum_sgd import MomentumSGD as MomentumSGD
from .named import LAMB as LAMB
from .named import LARS as LARS
from .named import AdaBelief as AdaBelief
from .named import Adadelta as Adadelta
from .named import Adafactor as Adafactor
from .named import Adagrad as Adagrad
from .named import Adamax as Adamax
from .named import AdamW as AdamW
from .named import AMSGrad as AMSGrad
from .named import Lion as Lion
from .named import Muon as Muon
from .named import NAdam as NAdam
from .named import NAdamW as NAdamW
from .named import RAdam as RAdam
from .named import RMSProp as RMSProp
from .named import Rprop as Rprop
from .named import ScheduleFreeAdamW as ScheduleFreeAdamW
from .named import Yogi as Yogi
from .sgd import SGD as SGD
