"""The gradient of an operator of the dialect: the primitive's own pullback, traced into IR."""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, TypeAlias

import jax
import numpy as np
from jax.extend import core

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Constant, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import BindingBlock, SeqExpr, VarBinding
from relaxjax.ir.node import replace
from relaxjax.ir.op import ByResult, Op, get_op
from relaxjax.ir.tuples import leaf_types, leaves_by_type
from relaxjax.ir.types import TensorType, Type
from relaxjax.ir.uses import count_uses
from relaxjax.ir.walk import substitute, type_symbols
from relaxjax.ops.declare import OpError
from relaxjax.ops.platform import asked_for_platform, chosen_platform, going_by, lowering_for

from .any_shape import for_shape, vectors_instead
from .avals import jax_dtype, matmul_precision, x64_for
from .choices import choosing_safely
from .composites import whole_function
from .inlining import open_program
from .jaxprs import jaxpr_of
from .known_values import known_of
from .reader import Reader
from .symbols import JaxSymbols, evaluate_attrs
from .tracing import Hole, NotTraceableError, Template, abstract_tensors, arranged, filled

# Primitives that JAX fails to differentiate by one of their arguments alone, and one that chooses
# among them: what it chooses is computed once for the adjoints of all.
_BY_ALL_ARGUMENTS = frozenset({"lax.pad", "lax.clamp"})


def gradient_of(name: str, op_of: Callable[[core.Primitive], Op]) -> ByResult:
    """The gradient rule of the operator `name`: the pullback of its lowering.

    Each tensor of a floating-point dtype among the arguments, also inside tuples, gets an adjoint.
    It is traced where it is asked for: by some arguments JAX refuses to differentiate.
    """

    def gradient(
        g: Sequence[Expr | None], out: Var, *args: Expr | None, **attrs: Any
    ) -> tuple[Callable[[], Expr | None], ...]:
        @contextmanager
        def of_known_sizes() -> Iterator[None]:
            try:
                yield
            except NotTraceableError:
                raise unknown_sizes(name, "gradient", args) from None

        with of_known_sizes():
            template, tensors = arranged(args)
        pullback = _Pullback(get_op(name), template, tensors, Attrs(attrs), g, out, op_of)
        return tuple(of_known_sizes()(partial(pullback.adjoint, item)) for item in template)

    return ByResult(gradient)


def gradient_of_joined(
    g: Expr, out: Var, *args: Expr | None, **attrs: Any
) -> tuple[Expr | None, ...]:
    """The gradient rule of `lax.concatenate`: a part of the adjoint for each argument.

    JAX's own cuts the adjoint once for all of them, and would do so for each by itself.
    """
    axis = attrs["dimension"]
    if len(args) == 1:
        return (g,)
    lengths = []
    for arg in args:
        if arg is None or not isinstance(arg.ty, TensorType) or arg.ty.dims is None:
            raise unknown_sizes("lax.concatenate", "gradient", args)
        lengths.append(arg.ty.dims[axis])
    parts = get_op("lax.split")(g, sizes=lengths, axis=axis)
    return tuple(
        None if isinstance(arg, Constant) else TupleGetItem(parts, index)
        for index, arg in enumerate(args)
    )


def unknown_sizes(name: str, derivative: str, args: Sequence[Expr | None]) -> OpError:
    """The error of a derivative that has to know more of its arguments."""
    types = ", ".join(str(arg.ty) for arg in args if arg is not None)
    return OpError(
        f"{name}: the {derivative} needs arguments of known shape and dtype, found {types}: name "
        'the dimensions, as R.match_cast(x, R.Tensor((n, m), "float32")) does'
    )


def is_inexact(ty: Type | None) -> bool:
    """Whether values of a type can have a derivative."""
    if not isinstance(ty, TensorType) or ty.dtype is None:
        return False
    return bool(jax.numpy.issubdtype(jax_dtype(ty.dtype), np.inexact))


@dataclass(frozen=True, slots=True)
class _Pullback:
    """One call to differentiate: its operator, its arguments, the adjoints `g` of its results."""

    op: Op
    template: tuple[Template, ...]
    tensors: Sequence[Expr]
    attrs: Attrs
    g: Sequence[Expr | None]
    out: Var
    op_of: Callable[[core.Primitive], Op]

    def adjoint(self, template: Template) -> Expr | None:
        """The adjoint of an argument: one expression, or a tuple of them for a tuple."""
        match template:
            case Hole(index):
                return self.tensor_adjoint(index) if self.is_smooth(index) else None
            case tuple():
                return self.tuple_adjoint(template)
            case _:
                return None

    def is_smooth(self, index: int) -> bool:
        """Whether the result may change with a tensor."""
        tensor = self.tensors[index]
        return is_inexact(tensor.ty) and not isinstance(tensor, Constant)

    def tuple_adjoint(self, fields: tuple[Template, ...]) -> Expr | None:
        adjoints = list(map(self.adjoint, fields))
        if all(adjoint is None for adjoint in adjoints):
            return None
        return Tuple(
            tuple(
                self.zeros(field) if adjoint is None else adjoint
                for field, adjoint in zip(fields, adjoints, strict=True)
            )
        )

    def zeros(self, template: Template) -> Expr:
        """The adjoint of a field that has no derivative, beside others that have."""
        if not isinstance(template, Hole):
            raise NotTraceableError
        return get_op("relax.zeros_like")(self.tensors[template.index])

    def tensor_adjoint(self, index: int) -> Expr | None:
        """The adjoint of one tensor, as an expression of `g`; None where it is always zero."""
        cotangents = [leaf for g in self.g if g is not None for leaf in leaves_by_type(g)]
        types = tuple(tensor.ty for tensor in self.tensors)
        together = self.op.name in _BY_ALL_ARGUMENTS
        chosen = tuple(filter(self.is_smooth, range(len(types)))) if together else (index,)
        program, symbols, platforms = self.of_any_shape(types, index, chosen) or self.traced(
            types, index, chosen, self.known_results()
        )
        going_by(platforms)
        if _is_zero(program):
            return None
        # The forward value is there already; an operator of the dialect computes it by itself.
        forward = known_of(Call(self.op, tuple(self.tensors), self.attrs), self.out)
        builder = BlockBuilder()
        with builder.scope():
            reader = Reader(
                builder,
                self.op_of,
                symbols,
                known=forward,
                spans=False,
                own_rule=whole_function,
                callbacks=True,  # as rules of libraries check values
            )
            args = [*cotangents, *self.tensors]
            (adjoint,) = reader.read(open_program(program), args, [True])
            assert adjoint is not None
            return compact(builder.sequence(adjoint))

    def of_any_shape(
        self, types: tuple[Type | None, ...], index: int, chosen: tuple[int, ...]
    ) -> "_Traced | None":
        """`traced`, as the program of vectors, where that tells of all shapes."""
        vectors = vectors_instead(self.op, self.template, types)
        if vectors is None:
            return None
        program, symbols, platforms = self.traced(vectors, index, chosen, None)
        resized = for_shape(program, types[index])
        return None if resized is None else (resized, symbols, platforms)

    def known_results(self) -> tuple[TensorType, ...] | None:
        """The types of the tensors that cotangents are of, where they say all."""
        # What is no tensor says nothing.
        leaves = (ty for _, ty in leaf_types(self.out.ty))
        types = [ty if isinstance(ty, TensorType) else TensorType() for ty in leaves]
        known = all(ty.dtype and ty.dims is not None and not type_symbols(ty) for ty in types)
        return tuple(types) if known and None not in self.g else None

    def traced(
        self,
        types: tuple[Type | None, ...],
        index: int,
        chosen: tuple[int, ...],
        results: tuple[TensorType, ...] | None,
    ) -> "_Traced":
        """The pullback by one tensor, of tensors of such types."""
        return _traced(
            *(self.op, self.template, types, self.attrs, index, chosen, matmul_precision()),
            tuple(g is not None for g in self.g),
            results,
            chosen_platform(),
        )


_Traced: TypeAlias = tuple[core.ClosedJaxpr, JaxSymbols, Collection[str]]


@lru_cache(maxsize=1024)
def _traced(
    op: Op,
    template: tuple[Template, ...],
    types: tuple[Type | None, ...],
    attrs: Attrs,
    index: int,
    chosen: tuple[int, ...],
    precision: Any,
    reached: tuple[bool, ...],
    known: tuple[TensorType, ...] | None,
    platform: str,
) -> _Traced:
    """The pullback by one of the chosen tensors, as a program of the cotangents and the tensors.

    And the platforms that it goes by. Only the results that are `reached` have a cotangent; they
    are traced for their types where these are not `known`.
    """
    symbols = JaxSymbols()
    tensors = abstract_tensors(types, symbols)
    params = evaluate_attrs(attrs, symbols.to_jax)
    lower = op.lower
    assert lower is not None

    def results(*arrays: Any) -> list[Any]:
        found = lower(*filled(template, arrays, symbols), **params)
        fields = found if isinstance(found, tuple | list) else [found]
        kept = [field for field, wanted in zip(fields, reached, strict=True) if wanted]
        return jax.tree.leaves(kept)

    def pullback(gs: Sequence[Any], arrays: Sequence[Any]) -> Any:
        def function(*xs: Any) -> list[Any]:
            given = dict(enumerate(arrays)) | dict(zip(chosen, xs, strict=True))
            return _smooth(results(*given.values()))

        _, vjp = jax.vjp(choosing_safely(function), *(arrays[place] for place in chosen))
        return vjp(_smooth(gs))[chosen.index(index)]

    with (
        x64_for(*types, attrs),
        jax.default_matmul_precision(precision),
        saying_why_not(op.name, "gradient", types),
        lowering_for(platform),
        asked_for_platform() as platforms,
    ):
        gs = (
            jax.eval_shape(results, *tensors)  # with symbolic sizes as JAX writes them
            if known is None
            else abstract_tensors(known, symbols)
        )
        return jaxpr_of(pullback, gs, tensors), symbols, platforms


@contextmanager
def saying_why_not(operator: str, derivative: str, types: Sequence[Type | None]) -> Iterator[None]:
    """Say what to do where JAX has no derivative, or only one for numbers as the dimensions."""
    try:
        yield
    except Exception as error:
        sizes = dict.fromkeys(str(symbol) for ty in types for symbol in type_symbols(ty))
        is_missing = str(error).startswith("Differentiation rule for")  # of a primitive
        if isinstance(error, OpError) or not (sizes or is_missing):
            raise
        (first, *_) = str(error).splitlines() or [type(error).__name__]
        if is_missing:
            raise OpError(
                f"{operator}: JAX has no {derivative} of it ({first}): give it arguments without "
                "a derivative, as by R.grad.no_grad, jax.lax.stop_gradient or detach of PyTorch"
            ) from error
        values = ", ".join(f'"{size}": 8' for size in sizes)
        raise OpError(
            f"{operator}: JAX has its {derivative} for known sizes only ({first}): give the "
            f"symbolic dimensions their values before, as by BindSymbolicVars({{{values}}})"
        ) from error


def _is_zero(program: core.ClosedJaxpr) -> bool:
    """Whether a traced pullback gives the zeros that JAX makes where nothing depends on anything.

    They must not stand in a program: zero times what is infinite there would not be zero.
    """
    (out,) = program.jaxpr.outvars
    if isinstance(out, core.Literal):
        return not np.any(out.val)
    makers = [eqn for eqn in program.jaxpr.eqns if out in eqn.outvars]
    if not makers or makers[0].primitive.name != "broadcast_in_dim":
        return False
    value = makers[0].invars[0]
    return isinstance(value, core.Literal) and not np.any(value.val)


def _smooth(values: Sequence[Any]) -> list[Any]:
    """Those of some arrays that can have a derivative."""
    return [value for value in values if jax.numpy.issubdtype(value.dtype, np.inexact)]


def compact(seq: SeqExpr) -> Expr:
    """A sequence as one expression: what is used once stands where it is used."""
    counts = count_uses(seq)
    nested: dict[Var, Expr] = {}
    kept: list[VarBinding] = []
    for binding in seq.bindings():
        value = substitute(binding.value, nested)
        if counts.get(binding.var) == 1 and isinstance(value, Call | TupleGetItem):
            nested[binding.var] = value
        elif isinstance(binding, VarBinding):
            kept.append(replace(binding, value=value))
    body = substitute(seq.body, nested)
    return SeqExpr((BindingBlock(tuple(kept)),), body) if kept else body
