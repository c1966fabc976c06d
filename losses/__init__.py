"""Losses: called with the types of their arguments, they give Relax functions."""

from .base import Loss as Loss
from .binary_cross_entropy import BCELoss as BCELoss
from .binary_cross_entropy import BCEWithLogitsLoss as BCEWithLogitsLoss
from .cosine import CosineEmbeddingLoss as CosineEmbeddingLoss
from .cosine import CosineLoss as CosineLoss
from .cross_entropy import CategoricalCrossEntropyLoss as CategoricalCrossEntropyLoss
from .cross_entropy import CrossEntropyLoss as CrossEntropyLoss
from .cross_entropy import NLLLoss as NLLLoss
from .ctc import CTCLoss as CTCLoss
from .functions import JaxLoss as JaxLoss
from .functions import RelaxLoss as RelaxLoss
from .functions import from_jax as from_jax
from .functions import from_relax as from_relax
from .gaussian import GaussianNLLLoss as GaussianNLLLoss
from .kl_divergence import KLDivLoss as KLDivLoss
from .margins import HingeLoss as HingeLoss
from .margins import MarginRankingLoss as MarginRankingLoss
from .margins import TripletMarginLoss as TripletMarginLoss
from .regression import HuberLoss as HuberLoss
from .regression import L1Loss as L1Loss
from .regression import MSELoss as MSELoss
from .regression import SmoothL1Loss as SmoothL1Loss
