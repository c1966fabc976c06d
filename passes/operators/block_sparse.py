"""Weights of dense layers that are mostly zero: finding them, and packing their blocks."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.op import get_op
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.uses import Uses

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class SparseWeights:
    """What `process_params` found: options for DenseToSparse, and the parameters after it."""

    weight_name: list[str]
    weight_shape: list[list[tuple[int, ...]]]
    params: dict[str, Array]


def process_params(
    function: Function,
    params: Mapping[str, Any],
    block_size: tuple[int, int] = (32, 32),
    sparsity_threshold: float = 0.8,
) -> SparseWeights:
    """Pack the weights of dense layers of which at least so large a part is zero blocks.

    `params` are arrays by the names of the function's parameters. A weight becomes its blocks and
    where they stand, as `w_data`, `w_indices` and `w_indptr`.
    """
    if not _is_shape(block_size):
        raise ValueError(f"`block_size` must be two lengths above 0, found {block_size!r}")
    names: list[str] = []
    shapes: list[list[tuple[int, ...]]] = []
    packed: dict[str, Array] = {}
    uses_of = dense_uses(function)
    for name, array in params.items():
        use = next((use for param, use in uses_of.items() if param.name == name), None)
        weight = np.asarray(array)
        parts = None if use is None else _packed(weight if use.transposed else weight.T, block_size)
        if parts is None or _sparsity(parts[0], weight) < sparsity_threshold:
            packed[name] = weight
            continue
        names.append(name)
        shapes.append([part.shape for part in parts])
        packed |= dict(zip(packed_names(name), parts, strict=True))
    return SparseWeights(names, shapes, packed)


def _is_shape(block: Any) -> bool:
    is_pair = isinstance(block, tuple | list) and len(block) == 2
    return is_pair and all(isinstance(length, int) and length > 0 for length in block)


def packed_names(name: str) -> tuple[str, str, str]:
    """The names of the three parameters that come in the place of a weight."""
    return f"{name}_data", f"{name}_indices", f"{name}_indptr"


@dataclass(frozen=True)
class DenseUse:
    """How dense layers read a weight: transposed by permute_dims first, or as it is."""

    transposed: bool
    variables: tuple[Var, ...]


def dense_uses(function: Function) -> dict[Var, DenseUse]:
    """The parameters that a function reads only as the right factors of matmuls of floats."""
    known = Uses.of(function)
    found = {}
    for param in function.params:
        if not isinstance(param.ty, TensorType) or param.ty.ndim != 2:
            continue
        turned = tuple(var for var in known.users_of(param) if _turns(known.value(var), param))
        if turned and len(turned) < known.count(param):
            continue
        variables = turned or (param,)
        readers = [(var, known.value(user)) for var in variables for user in known.users_of(var)]
        layers = sum(_is_layer(value, var) for var, value in readers)
        if layers and layers == sum(map(known.count, variables)):
            found[param] = DenseUse(bool(turned), variables)
    return found


def _turns(value: Expr | None, weight: Var) -> bool:
    """Whether a value is the transpose of a weight."""
    if not isinstance(value, Call) or value.op is not get_op("relax.permute_dims"):
        return False
    axes = value.attrs["axes"]
    straight = axes is not None and [axis % 2 for axis in axes] != [1, 0]
    return value.args[0] is weight and not straight


def _is_layer(value: Expr | None, weight: Var) -> bool:
    """Whether it is a matmul by a weight that is added up in the dtype of all of it, a float.

    So are the products of blocks; integers would overflow, and so would half precision.
    """
    if not isinstance(value, Call) or value.op is not get_op("relax.matmul"):
        return False
    types = [value.ty, *(arg.ty for arg in value.args)]
    dtypes = {ty.dtype for ty in types if isinstance(ty, TensorType)}
    return value.args[1] is weight and len(dtypes) == 1 and is_float(*dtypes)


def _packed(weight: Array, block: tuple[int, int]) -> tuple[Array, Array, Array] | None:
    """The blocks that are not all zero, row by row, their columns, and where rows begin."""
    rows, columns = block
    if weight.ndim != 2 or weight.shape[0] % rows or weight.shape[1] % columns:
        return None
    grid = weight.reshape(weight.shape[0] // rows, rows, weight.shape[1] // columns, columns)
    blocks = grid.swapaxes(1, 2)
    used = blocks.any(axis=(2, 3))
    starts = np.concatenate([[0], np.cumsum(used.sum(1))]).astype("int32")
    return np.ascontiguousarray(blocks[used]), np.nonzero(used)[1].astype("int32"), starts


def _sparsity(blocks: Array, weight: Array) -> float:
    return 1 - blocks.size / max(weight.size, 1)
