"""Legalising: calls of `relax.*` operators spelt out as calls of `lax.*`, by tracing."""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, TypeGuard

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings, expand_calls
from relaxjax.ir.expr import Call, Constant, Expr, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, SeqExpr
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.module import IRModule, check_module
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op, typed
from relaxjax.ir.tuples import assembled, leaf_types
from relaxjax.ir.uses import count_uses, values_of_kind
from relaxjax.ir.walk import nested_bindings
from relaxjax.ops.lax import UnsupportedPrimitiveError, read_jaxpr
from relaxjax.ops.platform import PLATFORM, asked_for_platform, chosen_platform, going_by, made_for

from .interpreter import LoweringError, holds_tensors
from .one_primitive import OnePrimitive
from .spelling import Hint, Spelling
from .target import Target, check_platform, platform_of
from .tracing import Lowering, Traced, trace_call


def legalize(
    mod: IRModule,
    target: Target | None = None,
    customize_map: Mapping[str, Lowering] | None = None,
    skip_ops: Sequence[str] = (),
) -> IRModule:
    """`mod` with its calls of `relax.*` operators spelt out as calls of `lax.*`.

    A call stays as it is, and runs all the same, if its operator has effects or no lowering, places
    a value on a device or forbids to differentiate by it, or if JAX cannot trace it from its types
    alone. Where nothing is to be done, the result is `mod`.

    Args:
        mod: the module.
        target: where it will run; what differs by platform is decided for it. Unless it is given,
            lowerings that differ are those for where JAX runs by default. The result then has the
            platform as an attribute.
        customize_map: other lowerings by operator name: JAX functions with the parameters of the
            operator.
        skip_ops: names of operators that stay as they are.
    """
    check_module(mod, "`legalize`")
    made_before = mod.attrs.get(PLATFORM)
    if target is not None:
        check_platform(mod, platform_of(target))
    platform = made_before if target is None else platform_of(target)  # which may be any of JAX's
    rule = _Legalization(platform, customize_map or {}, skip_ops)
    with asked_for_platform() as platforms:
        legal = {name: rule.function(f) for name, f in mod.relax_functions().items()}
    return made_for(mod.with_functions(legal), platforms)


_STAY = {"communicates", "data_dependent", "local_view", "placement", "steers", "waits"}


class _Legalization:
    """The choices of one run, and the rule that they make."""

    def __init__(
        self, named: str | None, customize_map: Mapping[str, Lowering], skip_ops: Sequence[str]
    ) -> None:
        for name in (*customize_map, *skip_ops):
            get_op(name)
        self.platform = None if named == "gpu" else named  # of whose make, nobody said
        self.lowered_for = named or chosen_platform()
        self.customize_map = customize_map
        self.skipped = frozenset(skip_ops)
        self.one_primitive = OnePrimitive(self.alone)
        self.spellings: dict[int, tuple[Any, Spelling | None]] = {}  # by the program's identity

    def function(self, function: Function) -> Function:
        is_legal = not any(
            self.is_spelt_out(binding.value) for binding in nested_bindings(function)
        )
        legal = function if is_legal else expand_bindings(function, self.expansion)
        if self.lowered_for != "cpu":
            return legal
        quick = with_quick_products(legal)
        if quick is not legal:
            going_by(["cpu"])
        return quick

    def expansion(self, binding: Binding, builder: BlockBuilder) -> Expr | None:
        """The value of a binding in `lax.*`, what it needs emitted before; None if it stays."""
        call = binding.value
        if not self.is_spelt_out(call):
            return None
        assert isinstance(call.op, Op)
        lower = self.customize_map.get(call.op.name, call.op.lower)
        if lower is None or not holds_tensors(call.ty):
            return None
        single = self.one_primitive.call(call) if lower is call.op.lower else None
        if single is not None:
            return single
        seq = self.program(call, lower, binding.var.name, builder)
        return None if seq is None else _emitted(seq, builder)

    def is_spelt_out(self, value: Expr) -> TypeGuard[Call]:
        """Whether a value is a call that becomes others, if its operator can be traced."""
        return isinstance(value, Call) and isinstance(value.op, Op) and self.covers(value.op)

    def covers(self, op: Op) -> bool:
        is_known = op.name.startswith("lax.") or op.name in self.skipped
        stays = op.name not in self.customize_map and not _STAY.isdisjoint(op.facts)
        return not is_known and op.pure and not stays

    def alone(self, call: Call) -> SeqExpr | None:
        """The bindings that a call becomes wherever it stands."""
        assert isinstance(call.op, Op)
        assert call.op.lower is not None
        builder = BlockBuilder()
        with builder.scope():
            return self.program(call, call.op.lower, "value", builder)

    def program(
        self, call: Call, lower: Lowering, name: str, builder: BlockBuilder
    ) -> SeqExpr | None:
        """The bindings that a call becomes, in a sequence of their own."""
        traced = trace_call(call, lower, self.lowered_for)
        if traced is None:
            return None
        going_by(traced.platforms)
        dataflow = builder.current_block_is_dataflow()
        with builder.scope():
            with builder.dataflow() if dataflow else nullcontext():
                try:
                    results = self.results(traced, name, builder)
                except UnsupportedPrimitiveError:
                    return None
            return builder.sequence(_result(call, results))

    def results(self, traced: Traced, name: str, builder: BlockBuilder) -> list[Expr]:
        """Emit a program; what was read before is written again, as equal layers have it."""

        def hint(primitive: str) -> str:
            return f"{name}_{primitive.replace('-', '_')}"

        def read(tensors: Sequence[Expr], builder: BlockBuilder, hint: Hint) -> list[Expr]:
            return read_jaxpr(
                traced.program,
                tensors,
                builder,
                symbols=traced.symbols,
                hint=hint,
                platform=self.platform,
                spans=False,
            )

        key = id(traced.program)
        if key not in self.spellings:
            self.spellings[key] = traced.program, Spelling.of(traced.tensors, read)
        _, known = self.spellings[key]
        are_leaves = all(isinstance(tensor, Var | Constant) for tensor in traced.tensors)
        if known is None or not are_leaves:
            return read(traced.tensors, builder, hint)
        return known.emit(traced.tensors, builder, hint)


def _result(call: Call, results: Sequence[Expr]) -> Expr:
    """The results of a program in the structure of the call's type, which they must fit."""
    assert call.ty is not None
    declared = [ty for _, ty in leaf_types(call.ty)]
    pairs = zip(results, declared, strict=False)
    misfit = next((result for result, ty in pairs if fits(result.ty, ty) is Fit.NEVER), None)
    if misfit is not None or len(results) != len(declared):
        found = f"{len(results)} results" if misfit is None else f"a result of type {misfit.ty}"
        raise LoweringError(f"the lowering of {call.op} gives {found}, but its type is {call.ty}")
    return assembled(call.ty, iter(results))


def _emitted(seq: SeqExpr, builder: BlockBuilder) -> Expr:
    """Emit all of a sequence but what gives its result, which is returned to be bound."""
    result = seq.body
    last = _definition(seq, result)
    for binding in seq.bindings():
        if binding is not last:
            builder.emit_binding(binding)
    return result if last is None else last.value


def _definition(seq: SeqExpr, result: Expr) -> Binding | None:
    """The binding of the result, if nothing else needs its variable."""
    if not isinstance(result, Var) or count_uses(seq).get(result, 0) > 1:
        return None
    return next((binding for binding in seq.bindings() if binding.var is result), None)


_ROWS_BY_COLUMNS = (((1,), (0,)), ((), ()))


def with_quick_products(function: Function) -> Function:
    """`function`, which is in `lax.*`, with a^T b^T = (b a)^T for two transposed matrices.

    XLA computes the former slowly on a CPU, and would take transpose and product together again, so
    a barrier stands between them. Of one transpose alone, as in the gradient of a layer's weights,
    XLA takes the product as it is: written out first, it takes 0.9 to 1.2 of the time by itself,
    and whole steps take 1.02 to 1.08.
    """
    calls = values_of_kind(nested_bindings(function), Call)
    sources: dict[Expr, Expr] = {v: c.args[0] for v, c in calls.items() if _is_transpose(c)}

    def is_slow(call: Call) -> bool:
        return _is_product(call) and all(arg in sources for arg in call.args)

    def expansion(call: Call) -> Expr | None:
        if not is_slow(call):
            return None
        a, b = call.args
        product = typed(replace(call, args=(sources[b], sources[a]), ty=None))
        kept = TupleGetItem(get_op("lax.optimization_barrier")(product), 0)
        return get_op("lax.transpose")(kept, permutation=(1, 0))

    if not any(map(is_slow, calls.values())):
        return function
    return remove_all_unused(expand_calls(function, expansion))


def _is_transpose(call: Call) -> bool:
    """Whether a call swaps the two axes of a matrix."""
    return call.op is get_op("lax.transpose") and call.attrs["permutation"] == (1, 0)


def _is_product(call: Call) -> bool:
    return (
        call.op is get_op("lax.dot_general") and call.attrs["dimension_numbers"] == _ROWS_BY_COLUMNS
    )
