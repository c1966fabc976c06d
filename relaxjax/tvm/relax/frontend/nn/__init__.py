"""Layers and operators by which models for TVM are written: `nn.Module`, `export_tvm`."""

from . import core as core
from . import diffusion as diffusion
from . import exporter as exporter
from . import modules as modules
from . import op as op
from . import spec as spec
from . import visitor as visitor
from .core import Module as Module
from .core import ModuleDict as ModuleDict
from .core import ModuleList as ModuleList
from .core import Parameter as Parameter
from .core import ParameterDict as ParameterDict
from .core import ParameterList as ParameterList
from .core import Tensor as Tensor
from .core import get_default_dtype as get_default_dtype
from .core import set_default_dtype as set_default_dtype
from .core import wrap_nested as wrap_nested
from .diffusion import Attention as Attention
from .diffusion import TimestepEmbedding as TimestepEmbedding
from .diffusion import Timesteps as Timesteps
from .modules import GELU as GELU
from .modules import Conv1D as Conv1D
from .modules import Conv2D as Conv2D
from .modules import Conv3D as Conv3D
from .modules import ConvTranspose1D as ConvTranspose1D
from .modules import Embedding as Embedding
from .modules import GroupNorm as GroupNorm
from .modules import Identity as Identity
from .modules import LayerNorm as LayerNorm
from .modules import Linear as Linear
from .modules import ReLU as ReLU
from .modules import RMSNorm as RMSNorm
from .modules import SiLU as SiLU
from .op import *  # noqa: F403  # every operator is a name of this package too
from .visitor import Mutator as Mutator
