"""Products in parts: the columns of one weight, and the rows of the next."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.device_mesh import DeviceMesh, Placement
from relaxjax.ir.expr import Call, Expr, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.types import TensorType
from relaxjax.ir.walk import used_vars
from relaxjax.passes.infrastructure.base import pass_factory

from .placing import along, axis_of, can_be_parted, mesh_for, model_of, weights_of, with_placements


@pass_factory(opt_level=0)
def TensorParallel(
    mod: IRModule, mesh: Any = None, axis: str | None = None, func_name: str | None = None
) -> IRModule:
    """Part the weights of products in pairs: columns of the first, rows of the second.

    A device computes with its columns what the rows that it has of the second weight need, so there
    is one allreduce for a pair. The first may be several side by side, as those for queries, keys
    and values, and their biases are parted with them. What makes no pair stays as it is.

    Args:
        mesh: as in AnnotateSharding.
        axis: the axis of the mesh, by default the last one.
        func_name: the model, by default `backbone` or `main`. The module says by `param_num` and
            `state_num` which parameters are weights.
    """
    over = mesh_for(mod, mesh)
    along_axis = axis_of(over, axis, -1)
    name, function = model_of(mod, func_name)
    found = _Products(function, weights_of(mod, name, function))
    places: dict[Var, Placement] = {}
    for firsts, second in found.pairs():
        placed = _parted(firsts, second, found.biases, over, along_axis)
        places |= placed if not set(placed) & set(places) else {}
    return with_placements(mod, places, [over])


@dataclass(frozen=True, eq=False)
class _Product:
    """A product with a weight, whose columns are along a dimension of it."""

    result: Var
    data: Expr
    weight: Var
    columns: int

    @property
    def rows(self) -> int:
        return 1 - self.columns


class _Products:
    """The products of a function with weights, and which of them each value is computed from."""

    def __init__(self, function: Function, weights: Sequence[Var]) -> None:
        self.weights = set(weights)
        self.turned: dict[Var, Var] = {}  # a weight whose dimensions were exchanged
        self.sources: dict[Var, frozenset[_Product]] = {}
        self.products: list[_Product] = []
        self.biases: dict[_Product, list[Var]] = {}
        for binding in function.body.bindings():
            self.read(binding.var, binding.value)

    def read(self, var: Var, value: Expr) -> None:
        product = self.product(var, value)
        if product is not None:
            self.products.append(product)
            self.sources[var] = frozenset((product,))
            return
        if isinstance(value, Call) and value.op is get_op("relax.permute_dims"):
            (given,) = value.args
            if isinstance(given, Var) and given in self.weights and known_ndim(given) == 2:
                self.turned[var] = given
        if isinstance(value, Call) and value.op is get_op("relax.add"):
            self.bias(*value.args)
        found = (self.sources.get(used, frozenset()) for used in used_vars(value))
        self.sources[var] = frozenset().union(*found)

    def product(self, var: Var, value: Expr) -> _Product | None:
        if not isinstance(value, Call) or value.op is not get_op("relax.matmul"):
            return None
        data, weight = value.args
        if not isinstance(weight, Var) or known_ndim(weight) != 2:
            return None
        if weight in self.weights:
            return _Product(var, data, weight, 1)
        own = self.turned.get(weight)
        return None if own is None else _Product(var, data, own, 0)

    def bias(self, left: Expr, right: Expr) -> None:
        """Note a weight that is added to the columns of a product."""
        for value, other in ((left, right), (right, left)):
            product = next((p for p in self.products if p.result is value), None)
            if (
                product
                and isinstance(other, Var)
                and other in self.weights
                and known_ndim(other) == 1
            ):
                self.biases.setdefault(product, []).append(other)

    def pairs(self) -> Iterator[tuple[frozenset[_Product], _Product]]:
        """Products with what computes their data, all of it in products that are in no pair yet."""
        taken: set[_Product] = set()
        for second in self.products:
            used = used_vars(second.data)
            firsts: frozenset[_Product] = frozenset().union(
                *(self.sources.get(var, frozenset()) for var in used)
            )
            if firsts and not firsts & taken:
                taken |= {*firsts, second}
                yield firsts, second


def _parted(
    firsts: frozenset[_Product],
    second: _Product,
    biases: dict[_Product, list[Var]],
    mesh: DeviceMesh,
    axis: str,
) -> dict[Var, Placement]:
    """The weights of a pair and their biases in parts; nothing where one has no equal ones."""
    dims = {first.weight: first.columns for first in firsts} | {second.weight: second.rows}
    dims |= {bias: 0 for first in firsts for bias in biases.get(first, ())}
    types = {weight: weight.ty for weight in dims if isinstance(weight.ty, TensorType)}
    if not all(can_be_parted(ty, dims[weight], mesh.size(axis)) for weight, ty in types.items()):
        return {}
    return {w: along(mesh, axis, dims[w], ty.placement) for w, ty in types.items()}
