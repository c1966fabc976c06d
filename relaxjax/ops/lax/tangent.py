"""The tangent of an operator's result: the pushforward of its lowering, traced into IR."""

from collections.abc import Callable, Collection, Iterator, Sequence
from functools import lru_cache
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Call, Expr, Tuple, Var
from relaxjax.ir.op import Op
from relaxjax.ir.types import TupleType, Type
from relaxjax.ops.platform import asked_for_platform, chosen_platform, going_by, lowering_for

from .avals import matmul_precision, x64_for
from .choices import choosing_safely
from .composites import whole_function
from .gradient import compact, is_inexact, saying_why_not, unknown_sizes
from .inlining import open_program
from .jaxprs import jaxpr_of
from .known_values import known_of
from .reader import Reader
from .symbols import JaxSymbols, evaluate_attrs
from .tracing import NotTraceableError, Template, abstract_tensors, arranged, filled


def pushforward(
    op: Op,
    op_of: Callable[[core.Primitive], Op],
    tangents: Sequence[Expr | None],
    out: Var,
    args: Sequence[Expr | None],
    attrs: Attrs,
) -> Expr:
    """The tangent of a call's result, of the type of the result.

    `tangents` are those of the arguments, of the argument's type, or None where it is constant.
    """
    try:
        template, tensors = arranged(args)
        moving = {
            index: tangent
            for index, tangent in enumerate(_tensor_tangents(args, tangents))
            if tangent is not None and is_inexact(tensors[index].ty)
        }
        types = tuple(tensor.ty for tensor in tensors)
        program, symbols, platforms = _traced(
            *(op, template, types, attrs, tuple(moving), matmul_precision()), chosen_platform()
        )
        going_by(platforms)
    except NotTraceableError:
        raise unknown_sizes(op.name, "tangent", args) from None
    # The forward value is there already; an operator of the dialect computes it by itself.
    forward = known_of(Call(op, tuple(tensors), attrs), out)
    builder = BlockBuilder()
    with builder.scope():
        reader = Reader(
            builder, op_of, symbols, known=forward, spans=False, own_rule=whole_function
        )
        given = [*moving.values(), *tensors]
        leaves = reader.read(open_program(program), given, [True] * len(program.out_avals))
        result = _of_type(out.ty, iter(leaves))
        return compact(builder.sequence(result))


def _tensor_tangents(
    args: Sequence[Expr | None], tangents: Sequence[Expr | None]
) -> Iterator[Expr | None]:
    """The tangent of each tensor among the arguments."""
    for arg, tangent in zip(args, tangents, strict=True):
        _, tensors = arranged([arg])
        yield from [None] * len(tensors) if tangent is None else arranged([tangent])[1]


def _of_type(ty: Type | None, leaves: Iterator[Expr | None]) -> Expr:
    """The tensors of a result, in its structure."""
    if isinstance(ty, TupleType):
        return Tuple(tuple(_of_type(item, leaves) for item in ty.fields))
    leaf = next(leaves)
    assert leaf is not None
    return leaf


@lru_cache(maxsize=1024)
def _traced(
    op: Op,
    template: tuple[Template, ...],
    types: tuple[Type | None, ...],
    attrs: Attrs,
    moving: tuple[int, ...],
    precision: Any,
    platform: str,
) -> tuple[Any, JaxSymbols, Collection[str]]:
    """The pushforward as a program of the tangents of the moving tensors, and of all tensors.

    And the platforms that it goes by.
    """
    symbols = JaxSymbols()
    avals = abstract_tensors((*(types[index] for index in moving), *types), symbols)
    params = evaluate_attrs(attrs, symbols.to_jax)
    lower = op.lower
    assert lower is not None

    def run(*values: Any) -> Any:
        tangents, arrays = values[: len(moving)], list(values[len(moving) :])

        def function(*moved: Any) -> Any:
            given = dict(zip(moving, moved, strict=True))
            all_arrays = [given.get(index, array) for index, array in enumerate(arrays)]
            return lower(*filled(template, all_arrays, symbols), **params)

        points = tuple(arrays[index] for index in moving)
        result, tangent = jax.jvp(choosing_safely(function), points, tangents)
        return jax.tree.map(_tangent, jax.tree.leaves(result), jax.tree.leaves(tangent))

    with (
        x64_for(*types, attrs),
        jax.default_matmul_precision(precision),
        saying_why_not(op.name, "tangent", types),
        lowering_for(platform),
        asked_for_platform() as platforms,
    ):
        return jaxpr_of(run, *avals), symbols, platforms


def _tangent(result: Any, tangent: Any) -> Any:
    """A tangent, zeros where the result has none."""
    return jnp.zeros(result.shape, result.dtype) if tangent.dtype == jax.dtypes.float0 else tangent
