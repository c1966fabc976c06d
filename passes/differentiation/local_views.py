"""Differentiating what each device of a mesh runs: the backward program is run by each, too.

A device has an adjoint of its own for each value, which says how much the target moves with the
copy of that device. What all devices have alike is so many copies: of a result, each gets its share
of the adjoint, and of an argument, the adjoints of all of them are added up.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.device_mesh import DeviceMesh, Placement
from relaxjax.ir.expr import Call, Expr, GlobalVar, Tuple, TupleGetItem, Var, const
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.renew import renew
from relaxjax.ir.tuples import Path, assembled, field_of, leaves_by_type
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ops.local_view import placements_over
from relaxjax.ops.replication import check_alike

from .adjoint import Adjoint, GradientError, Reverse
from .tuple_paths import add_at


@dataclass(frozen=True)
class LocalView:
    """A call on each device: its function, its arguments, and how these and the results lie."""

    call: Call

    @property
    def function(self) -> GlobalVar:
        function = self.call.args[0]
        assert isinstance(function, GlobalVar)
        return function

    @property
    def args(self) -> list[Expr]:
        return list(self.call.args[1])

    @property
    def mesh(self) -> DeviceMesh:
        mesh: DeviceMesh = self.call.attrs["device_mesh"]
        return mesh

    @property
    def ins(self) -> list[Placement]:
        return placements_over(self.mesh, self.call.attrs["in_placements"])

    @property
    def outs(self) -> list[Placement]:
        return placements_over(self.mesh, self.call.attrs["out_placements"])

    @property
    def own(self) -> Placement:
        """Of what each device has for itself, with a dimension of 1 before for each axis."""
        return Placement(self.mesh, tuple(range(len(self.mesh.shape))))

    def called(
        self,
        function: GlobalVar,
        args: Sequence[Expr],
        ins: Sequence[Placement],
        outs: Sequence[Placement],
    ) -> Call:
        """The call of another function on each device of the same mesh."""
        assert isinstance(self.call.op, Op)
        return self.call.op(
            function,
            Tuple(tuple(args)),
            device_mesh=self.mesh,
            in_placements=[one.text for one in ins],
            out_placements=[one.text for one in outs],
        )

    def call_inside(self, mod: IRModule) -> Call:
        """The call as it is inside: of a device's own parts."""
        check_alike(self.call, mod)
        return Call(self.function, tuple(self.args))


def emit_local_view(
    builder: BlockBuilder,
    binding: Binding,
    view: LocalView,
    indices: Sequence[int],
    vjp: tuple[GlobalVar, GlobalVar],
    added: Callable[[str, Function], GlobalVar],
) -> Reverse:
    """Emit a call that gives the residuals of each device, too; the reverse hands them back."""
    forward, backward = vjp
    name, count = view.function.name, len(view.outs)
    ahead = _forward(view, forward)
    kept_types = _result_fields(ahead)[count:]
    stacked = [view.own] * len(kept_types)
    both = view.called(
        added(f"{name}_parts_forward", ahead), view.args, view.ins, [*view.outs, *stacked]
    )
    kept = builder.emit(both, f"{binding.var.name}_kept")
    results = tuple(TupleGetItem(kept, index) for index in range(count))
    is_tuple = isinstance(view.call.ty, TupleType)
    builder.emit_binding(replace(binding, value=Tuple(results) if is_tuple else results[0]))
    back = added(f"{name}_parts_backward", _backward(view, backward, indices, kept_types))

    def reverse(adjoint: Adjoint, cotangent: Var) -> None:
        saved = [TupleGetItem(kept, count + index) for index in range(len(stacked))]
        given = [field_of(cotangent, i) for i in range(count)] if is_tuple else [cotangent]
        args = map(adjoint.leaf, (*view.args, *saved, *given))
        ins, outs = [*view.ins, *stacked, *view.outs], [view.ins[index] for index in indices]
        result = adjoint.builder.emit(
            view.called(back, list(args), ins, outs), f"{binding.var.name}_inputs_adjoint"
        )
        partials: dict[Path, Expr] = {
            (index,): TupleGetItem(result, i) for i, index in enumerate(indices)
        }
        add_at(adjoint, view.call.args[1], partials)

    return reverse


def flat_results(function: GlobalVar, params: Sequence[Type]) -> Function:
    """A function that gives in one tuple all that another gives in a tuple of tuples."""
    given = [Var(f"arg{index}", ty) for index, ty in enumerate(params)]
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in given]):
        result = builder.emit(Call(function, tuple(given)), "both")
        leaves = tuple(builder.normalize_leaf(leaf) for leaf in _leaves(result))
        body = builder.sequence(Tuple(leaves))
    return renew(make_function(given, body, ret_ty=body.ty))[0]


def _forward(view: LocalView, forward: GlobalVar) -> Function:
    """What each device runs ahead: the results, then the residuals with a dimension per axis."""
    params = _params(forward)
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in params]):
        both = builder.emit(Call(forward, tuple(params)), "both")
        results = map(builder.normalize_leaf, _leaves(TupleGetItem(both, 0)))
        apart = get_op("relax.expand_dims")
        rows = [
            builder.emit(apart(builder.normalize_leaf(leaf), list(range(len(view.mesh.shape)))))
            for leaf in _leaves(TupleGetItem(both, 1))
        ]
        body = builder.sequence(Tuple((*results, *rows)))
    return renew(make_function(params, body, ret_ty=body.ty))[0]


def _backward(
    view: LocalView, backward: GlobalVar, indices: Sequence[int], kept: Sequence[Type]
) -> Function:
    """What each device runs on the way back, from its residuals and its shares of the adjoints."""
    *own, saved, cotangent = _params(backward)
    rows = [Var(f"saved{index}", ty) for index, ty in enumerate(kept)]
    is_tuple = isinstance(view.call.ty, TupleType)
    types = cotangent.ty.fields if isinstance(cotangent.ty, TupleType) else (cotangent.ty,)
    given = [Var(f"adjoint{index}", ty) for index, ty in enumerate(types)]
    builder = BlockBuilder()
    with builder.scope(taken=[var.name for var in (*own, *rows, *given)]):
        squeeze, axes = get_op("relax.squeeze"), list(range(len(view.mesh.shape)))
        values = iter([builder.emit(squeeze(row, axes)) for row in rows])
        shares = [
            builder.normalize_leaf(_share(var, one))
            for var, one in zip(given, view.outs, strict=True)
        ]
        adjoints = Tuple(tuple(shares)) if is_tuple else shares[0]
        residuals = builder.normalize_leaf(assembled(saved.ty, values))
        args = (*own, residuals, builder.normalize_leaf(adjoints))
        found = builder.emit(Call(backward, args), "found")
        sums = tuple(
            builder.normalize_leaf(_added_up(TupleGetItem(found, position), view.ins[index]))
            for position, index in enumerate(indices)
        )
        body = builder.sequence(Tuple(sums))
    return renew(make_function((*own, *rows, *given), body, ret_ty=body.ty))[0]


def _share(adjoint: Var, placement: Placement) -> Expr:
    """A device's share of the adjoint of a result that so many have alike."""
    sizes = zip(placement.mesh.shape, placement.parts, strict=True)
    copies = 1
    for size, part in sizes:
        copies *= size if part is None else 1
    if copies == 1 or not carries_gradient(adjoint.ty):
        return adjoint
    assert isinstance(adjoint.ty, TensorType)
    return get_op("relax.multiply")(adjoint, const(1 / copies, adjoint.ty.dtype))


def _added_up(adjoint: Expr, placement: Placement) -> Expr:
    """The adjoint of an argument, from those of the devices that have it alike."""
    axes = [axis for axis in placement.mesh.axes if axis not in placement.axes]
    shared = axes and carries_gradient(adjoint.ty)
    return get_op("relax.ccl.allreduce")(adjoint, mesh_axes=axes) if shared else adjoint


def _params(function: GlobalVar) -> list[Var]:
    """Parameters for a function that calls another with them."""
    types = getattr(function.ty, "params", None) or ()
    return [Var(f"arg{index}", ty) for index, ty in enumerate(types)]


def _result_fields(function: Function) -> Sequence[Type]:
    assert isinstance(function.ret_ty, TupleType)
    return function.ret_ty.fields


def _leaves(value: Expr) -> Iterator[Expr]:
    for leaf in leaves_by_type(value):
        if not isinstance(leaf.ty, TensorType):
            raise GradientError(
                f"the way back through what each device runs needs a value of type {leaf.ty}, "
                "which no device can keep: give what it is computed from as an argument"
            )
        yield leaf
