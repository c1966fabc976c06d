"""Updates of tables by the rows of their gradients, and not as a whole."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, ShapeExpr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op
from relaxjax.ir.tensor_types import known_dims, known_dtype
from relaxjax.ir.types import TensorType, TupleType, is_float
from relaxjax.ir.walk import substitute
from relaxjax.ops.platform import chosen_platform
from relaxjax.ops.shapes import element_count
from relaxjax.passes.differentiation.rows import rows_given_back, with_parts
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.simplification.tensors import number_of
from relaxjax.trainable.arguments import Arguments, required_function
from relaxjax.trainable.names import ADJOINT, OPTIMIZER

from .row_formula import (
    GRADIENTS,
    PARAMS,
    STATES,
    Input,
    NotByRowsError,
    OptimizerFunction,
    TableUpdate,
)
from .update import function_of, loss_of, tensor_type, unpacked

# Sorting, gathering and writing a row takes about as long as updating so many in order.
_WORTH = 4
_LARGE = 2**14  # rows of a table that batches of any size will hardly fill


@pass_factory(opt_level=0)
def UpdateRows(mod: IRModule, lazy: bool = False) -> IRModule:
    """Update only those rows of a table that a batch reads, where the optimizer allows it.

    The gradient of a table of which only `take` reads rows is a pair then, the rows and their
    places: `backbone_loss_adjoint` gives it, and `optimizer` takes it. It changes the table in
    place. Other parameters are updated as before.

    That is done where rows without a gradient would stay as they are, states included: so it is
    for SGD without weight decay and for Adagrad, not for momentum or Adam. With `lazy`, the formula
    of any optimizer that treats each number separately is applied to the rows that occur, and to
    them only, as by the lazy variants of TensorFlow and PyTorch.
    """
    adjoint, optimizer = required_function(mod, ADJOINT), required_function(mod, OPTIMIZER)
    written, rows = rows_given_back(adjoint)
    if not rows and not lazy:
        return mod
    names = [param.name for param in Arguments.of(mod, ADJOINT).params]
    read = OptimizerFunction(optimizer)
    updates = _updates(read, rows, names, lazy)
    if not updates:
        return mod
    parts = with_parts(written, [update.number for update in updates])
    by_rows = _Rewritten(read, parts, updates).function()
    return mod.with_functions({ADJOINT: parts, OPTIMIZER: by_rows})


def _updates(
    read: OptimizerFunction, rows: Mapping[int, Call], names: Sequence[str], lazy: bool
) -> list[TableUpdate]:
    """The updates of tables that are made by rows."""
    found: list[TableUpdate] = []
    for number, gradient in rows.items():
        try:
            update = read.update_of(number)
        except NotByRowsError as error:
            if lazy:
                raise ValueError(
                    f"the optimizer is lazy, but its update of `{names[number]}` {error}: only "
                    "what treats each number separately, and adds up no more than gradients, can "
                    "be applied to single rows; leave Lazy out"
                ) from None
            continue
        if lazy or (update.is_exact and _is_worth_it(gradient)):
            found.append(update)
    if lazy and not found:
        raise ValueError(
            "the optimizer is lazy, but of no parameter only rows are read, by R.take along the "
            f"first axis: those of {', '.join(names)} have whole gradients; leave Lazy out"
        )
    return found


def _is_worth_it(gradient: Call) -> bool:
    """Whether there are many more rows than places."""
    places, length = gradient.args[1].ty, tensor_type(gradient).dims
    assert isinstance(places, TensorType)
    if places.dims is None or not length or not isinstance(length[0], int):
        return False
    count = element_count(places.dims)
    return count * _WORTH <= length[0] if isinstance(count, int) else length[0] >= _LARGE


class _Rows:
    """A table's update as it is written: the places, and the values that are its rows there."""

    def __init__(self, update: TableUpdate, table: TensorType, pair: Expr) -> None:
        self.update = update
        self.shape = ShapeExpr(table.dims or ())
        self.pair = pair
        self.places: Expr = pair
        self.values: Expr = pair
        self.written: Var | None = None  # the table, or the last state, with its new rows
        self.waits = len(update.states) > 1 and chosen_platform() == "cpu"

    def begin(self, builder: BlockBuilder, name: str) -> None:
        """Bind the rows of the gradient, and their places; each once where that matters."""
        values, places = unpacked(builder, self.pair, [f"{name}_grad_rows", f"{name}_places"])
        dims = tensor_type(places).dims or ()
        if not self.update.is_linear:
            summed = get_op("relax.grad.summed_rows")(values, places, self.shape)
            pair = builder.emit(summed, f"{name}_grad_summed")
            values, places = unpacked(builder, pair, [f"{name}_grad_rows", f"{name}_places"])
        elif len(dims) != 1:
            reshape, count = get_op("relax.reshape"), element_count(dims)
            values = builder.emit(reshape(values, ShapeExpr((count, *self.shape.values[1:]))))
            places = builder.emit(reshape(places, ShapeExpr((count,))))
        self.values, self.places = values, places

    def put(self, builder: BlockBuilder, one: Input, whole: Expr, rows: Expr, name: str) -> Var:
        """A table or a state with new rows.

        Those of one of several states wait on a CPU for what was written before: XLA stores all
        new rows at once otherwise, and the old ones of which they are made.
        """
        if self.written is not None and self.waits:
            rows = builder.emit(get_op("relax.grad.delay")(rows, self.written), f"{name}_late")
        is_added = one in self.update.added
        put = get_op("relax.grad.put_rows")(whole, rows, self.places, accumulate=is_added)
        new = builder.emit(put, name)
        if is_float(known_dtype(new) or "") and 0 not in (known_dims(new) or ()):
            self.written = new
        return new

    @property
    def dims(self) -> ShapeExpr:
        return ShapeExpr(tensor_type(self.values).dims or ())


class _Rewritten:
    """An optimizer's function with some tables updated by rows."""

    def __init__(
        self, read: OptimizerFunction, adjoint: Function, updates: Sequence[TableUpdate]
    ) -> None:
        self.read = read
        self.names = {one: var.name for var, one in read.inputs.items()}
        self.updates = updates
        assert isinstance(adjoint.ret_ty, TupleType)
        old = read.function.params
        loss = [param.ty for param in loss_of(read.function)]
        types = (old[PARAMS].ty, adjoint.ret_ty.fields[1], old[STATES].ty, *loss)
        self.params = [Var(var.name, ty) for var, ty in zip(old, types, strict=True)]
        self.builder = BlockBuilder()
        self.known: dict[Var, Expr] = dict(zip(old, self.params, strict=True))
        self.rows: dict[Var, _Rows] = {}  # by the variables that they stand for
        self.tables: dict[Input, _Rows] = {}
        self.wholes: dict[Input, Var] = {}

    def function(self) -> Function:
        with self.builder.function(OPTIMIZER, self.params):
            with self.builder.dataflow():
                self._begin()
                for binding in self.read.function.body.bindings():
                    if binding.var not in self.read.tuples:
                        self._binding(binding.var, self.read.known.values[binding.var])
                results = tuple(
                    self.builder.emit_output(self._results(group, fields), name)
                    for group, fields, name in zip(
                        (PARAMS, STATES),
                        self.read.results,
                        ("params_new", "optim_states_new"),
                        strict=True,
                    )
                )
            self.builder.emit_func_output(results)
        return function_of(self.builder).with_attr("global_symbol", OPTIMIZER)

    def _begin(self) -> None:
        types = self.params[PARAMS].ty
        assert isinstance(types, TupleType)
        for update in self.updates:
            table = types.fields[update.number]
            assert isinstance(table, TensorType)
            name = self.names.get((PARAMS, update.number), "table")
            pair = TupleGetItem(self.params[GRADIENTS], update.number)
            rows = _Rows(update, table, self.builder.emit(pair, f"{name}_grad"))
            rows.begin(self.builder, name)
            self.rows |= dict.fromkeys(update.values, rows)
            self.tables[PARAMS, update.number] = rows
            self.tables |= {(STATES, state): rows for state in update.states}

    def _binding(self, var: Var, value: Expr) -> None:
        rows = self.rows.get(var)
        if rows is None:
            self.known[var] = self.builder.emit(substitute(value, self.known), var.name)
        elif var in self.read.inputs:
            is_gradient = self.read.inputs[var][0] == GRADIENTS
            self.known[var] = rows.values if is_gradient else self._input(var, rows)
        else:
            assert isinstance(value, Call)
            args = tuple(self._argument(arg, rows) for arg in value.args)
            self.known[var] = self.builder.emit(replace(value, args=args, ty=None), var.name)

    def _input(self, var: Var, rows: _Rows) -> Expr:
        """The rows of a table or a state, or zeros where it matters only what is added to them."""
        one = self.read.inputs[var]
        if one in rows.update.added:
            zeros = get_op("relax.zeros")(rows.dims, tensor_type(var).dtype)
            return self.builder.emit(zeros, f"{var.name}_zeros")
        taken = get_op("relax.take")(self._whole(one, var.name), rows.places, axis=0, mode="clip")
        return self.builder.emit(taken, f"{var.name}_rows")

    def _whole(self, one: Input, name: str) -> Expr:
        if one not in self.wholes:
            group, index = one
            self.wholes[one] = self.builder.emit(TupleGetItem(self.params[group], index), name)
        return self.wholes[one]

    def _argument(self, arg: Expr, rows: _Rows) -> Expr:
        """An argument of a call on rows: rows, or a number in as many places."""
        if isinstance(arg, Var) and arg in self.rows:
            return self.known[arg]
        number = number_of(arg, self.read.known)
        assert number is not None
        scalar = substitute(number, self.known)
        if tensor_type(arg).ndim == 0:
            return scalar
        return self.builder.normalize_leaf(get_op("relax.broadcast_to")(scalar, rows.dims))

    def _results(self, group: int, fields: Sequence[Expr]) -> Tuple:
        return Tuple(tuple(self._result((group, i), field) for i, field in enumerate(fields)))

    def _result(self, one: Input, field: Expr) -> Expr:
        rows = self.tables.get(one)
        if rows is None:
            return substitute(field, self.known)
        assert isinstance(field, Var)
        whole = self._whole(one, self.names.get(one, field.name))
        if self.read.inputs.get(field) == one:
            return whole  # it stays as it is
        return rows.put(self.builder, one, whole, self.known[field], field.name)
