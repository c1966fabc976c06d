"""Operators that give copies of what others give views of."""

from collections.abc import Callable, Mapping

from relaxjax.ir.expr import Expr

from . import diagonals, shapes, slicing
from .table import aten

_COPIES: Mapping[str, Callable[..., Expr | list[Expr]]] = {
    "diagonal_copy.default": diagonals.diagonal,
    "expand_copy.default": shapes.expand,
    "narrow_copy.default": slicing.narrow,
    "permute_copy.default": shapes.permute,
    "select_copy.int": slicing.select,
    "slice_copy.Tensor": slicing.slice_tensor,
    "split_copy.Tensor": slicing.split,
    "split_with_sizes_copy.default": slicing.split_with_sizes,
    "squeeze_copy.default": shapes.squeeze,
    "squeeze_copy.dim": shapes.squeeze,
    "squeeze_copy.dims": shapes.squeeze,
    "t_copy.default": shapes.t,
    "transpose_copy.int": shapes.transpose,
    "unbind_copy.int": slicing.unbind,
    "unfold_copy.default": slicing.unfold,
    "unsafe_chunk.default": slicing.chunk,
    "unsafe_split.Tensor": slicing.split,
    "unsafe_split_with_sizes.default": slicing.split_with_sizes,
    "unsqueeze_copy.default": shapes.unsqueeze,
    "view_copy.default": shapes.view_default,
}
for _target, _rule in _COPIES.items():
    aten(_target)(_rule)
