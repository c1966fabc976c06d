"""Computing matrix products and convolutions in half precision, and what can follow them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from relaxjax.ir.blocks import tidy_blocks
from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dead_code import remove_all_unused
from relaxjax.ir.expand import expand_bindings
from relaxjax.ir.expr import Call, Constant, DataflowVar, Expr, Tuple, TupleGetItem, Var, np_dtype
from relaxjax.ir.function import (
    Binding,
    BindingBlock,
    DataflowBlock,
    Function,
    MatchCast,
    VarBinding,
)
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.tuples import leaves
from relaxjax.ir.types import TensorType, TupleType, Type, is_float
from relaxjax.ir.walk import nested_blocks, substitute
from relaxjax.passes.infrastructure.base import pass_factory
from relaxjax.passes.infrastructure.named_params import check_params
from relaxjax.passes.simplification.canonicalize_bindings import canonical_bindings

_FULL = "float32"
_HALVES = ("float16", "bfloat16")


@pass_factory(opt_level=0, kind="function")
def ToMixedPrecision(
    function: Function,
    mod: IRModule,
    out_dtype: str = _FULL,
    fp16_input_names: Sequence[str] | None = None,
    dtype: str = "float16",
) -> Function:
    """Mixed precision: matrix products and convolutions in 16 bits, the rest in float32.

    Operators declare their policy. Those that are `always` computed in half precision, such as
    matmul and conv2d, accumulate in `out_dtype`. Those that `follow` are computed in half precision
    where all their arguments are. Those that `never` are keep float32. `dtype` is "float16" or
    "bfloat16".

    The parameters in `fp16_input_names` are taken in half precision. All others, and the results,
    keep their dtypes, so a module that is trained after this pass updates its float32 parameters.
    On a backward program the pass gains more than before Gradient: there the products of adjoints
    accumulate in `out_dtype` too.
    """
    check_params("fp16_input_names", fp16_input_names or (), mod)
    _check(function, out_dtype, fp16_input_names or (), dtype)
    narrowed = _with_half_params(function, fp16_input_names or (), dtype)
    trial = _Writer(narrowed, dtype, out_dtype, ())
    changed = expand_bindings(narrowed, trial.binding)
    if changed is narrowed:
        return narrowed
    writer = _Writer(narrowed, dtype, out_dtype, trial.only_half())
    return remove_all_unused(canonical_bindings(expand_bindings(narrowed, writer.binding)))


def _check(function: Function, out_dtype: str, names: Sequence[str], dtype: str) -> None:
    if dtype not in _HALVES:
        raise ValueError(f'`dtype` must be "float16" or "bfloat16", found "{dtype}"')
    if out_dtype not in (_FULL, dtype):
        raise ValueError(f'`out_dtype` must be "{_FULL}" or "{dtype}", found "{out_dtype}"')
    wide = {param.name for param in function.params if _dtype(param.ty) == _FULL}
    for name in names:
        if name not in wide and name in {param.name for param in function.params}:
            raise ValueError(f"`fp16_input_names` names `{name}`, which is no {_FULL} tensor")


def _with_half_params(function: Function, names: Sequence[str], dtype: str) -> Function:
    """The function with some parameters in half precision, which it converts at its beginning."""
    chosen = [param for param in function.params if param.name in names]
    if not chosen:
        return function
    half = {p: Var(p.name, with_dtypes(p.ty, _FULL, dtype), span=p.span) for p in chosen}
    blocks = function.body.blocks
    dataflow = len(blocks) == 1 and isinstance(blocks[0], DataflowBlock)
    kind = DataflowVar if dataflow and function.body.body not in chosen else Var
    full = {p: kind(p.name, p.ty, span=p.span) for p in chosen}
    casts = tuple(VarBinding(full[p], get_op("relax.astype")(half[p], _FULL)) for p in chosen)
    body = substitute(function.body, full)
    if kind is DataflowVar:
        first = replace(body.blocks[0], bindings=(*casts, *body.blocks[0].bindings))
        body = replace(body, blocks=(first,))
    else:
        body = replace(body, blocks=tidy_blocks((BindingBlock(casts), *body.blocks)))
    params = [half.get(param, param) for param in function.params]
    return make_function(
        params, body, ret_ty=function.ret_ty, pure=function.pure, attrs=function.attrs
    )


class _Writer:
    """Emits calls in half precision, and before them the conversions that they need."""

    def __init__(
        self, function: Function, dtype: str, out_dtype: str, ahead: Sequence[Var]
    ) -> None:
        self.dtype = dtype
        self.out_dtype = out_dtype
        self.ahead = list(ahead)
        self.params = function.params
        blocks = list(nested_blocks(function))
        self.place = {b.var: n for n, block in enumerate(blocks) for b in block.bindings}
        self.half: dict[tuple[int, Var], Expr] = {}  # what a variable is in half precision
        self.computed: set[Var] = set()  # what half precision was good enough to compute
        self.asked_half: set[Var] = set()
        self.asked_full: set[Var] = set()

    def only_half(self) -> list[Var]:
        """The parameters that are read in half precision only."""
        return [p for p in self.params if p in self.asked_half and p not in self.asked_full]

    def binding(self, binding: Binding, builder: BlockBuilder) -> Expr | None:
        place = self.place[binding.var]
        while self.ahead and place == 0:
            self.in_half(self.ahead.pop(0), place, builder)
        value = None if isinstance(binding, MatchCast) else self.value(binding, place, builder)
        if value is None:
            self.asked_full.update(var for _, var in leaves(binding.value) if isinstance(var, Var))
            return None
        if _dtype_is(value.ty, binding.var.ty):
            return value
        half = builder.emit(value, binding.var.name)
        self.half[place, binding.var] = half
        self.computed.add(binding.var)
        return self.in_dtypes_of(half, binding.var.ty)

    def value(self, binding: Binding, place: int, builder: BlockBuilder) -> Expr | None:
        """What a binding computes in half precision; None where it stays as it is."""
        match binding.value:
            case Call(op=Op(precision="always")) as call:
                return self.always(binding.var, call, place, builder)
            case Call(op=Op(precision="follow")) as call:
                self._note_conversion(binding.var, call, place)
                return self.follow(call, place, builder)
            case TupleGetItem(tuple_value=Var() as var, index=index):
                half = self.half.get((place, var))
                return None if half is None else TupleGetItem(half, index)
            case _:
                return None

    def always(self, var: Var, call: Call, place: int, builder: BlockBuilder) -> Expr | None:
        parts = [leaf for arg in call.args for _, leaf in leaves(arg)]
        dtypes = {_dtype(leaf.ty) for leaf in parts if is_float(_dtype(leaf.ty))}
        if not dtypes or not dtypes <= {_FULL, self.dtype} or _dtype(call.ty) not in (None, _FULL):
            return None
        given = [self.argument(arg, place, builder) for arg in call.args]
        attrs = call.attrs
        if "out_dtype" in attrs:
            attrs = attrs.updated(out_dtype=self.out_dtype)
        if attrs == call.attrs and all(a is b for a, b in zip(given, call.args, strict=True)):
            return None
        self.computed.add(var)
        return builder.normalize(replace(call, args=tuple(given), attrs=attrs, ty=None))

    def follow(self, call: Call, place: int, builder: BlockBuilder) -> Expr | None:
        parts = [leaf for arg in call.args for _, leaf in leaves(arg) if _dtype(leaf.ty) == _FULL]
        named = call.attrs.get("dtype") is not None or call.attrs.get("out_dtype") is not None
        given = [self.at_hand(leaf, place) for leaf in parts]
        if named or True not in given or False in given:
            return None
        args = [self.argument(arg, place, builder) for arg in call.args]
        return builder.normalize(replace(call, args=tuple(args), ty=None))

    def at_hand(self, leaf: Expr, place: int) -> bool | None:
        """Whether a value is there in half precision, None for what is as good in either."""
        if isinstance(leaf, Constant):
            return None if _fits(leaf.data, self.dtype) else False
        if not isinstance(leaf, Var):
            return False
        return leaf in self.computed and self.place[leaf] == place

    def argument(self, arg: Expr, place: int, builder: BlockBuilder) -> Expr:
        if isinstance(arg, Tuple):
            return Tuple(tuple(self.argument(field, place, builder) for field in arg.fields))
        return self.in_half(arg, place, builder) if _dtype(arg.ty) == _FULL else arg

    def in_half(self, leaf: Expr, place: int, builder: BlockBuilder) -> Expr:
        if isinstance(leaf, Constant):
            return Constant(leaf.data.astype(np_dtype(self.dtype)))
        assert isinstance(leaf, Var)
        self.asked_half.add(leaf)
        if (place, leaf) not in self.half:
            self.half[place, leaf] = builder.emit(get_op("relax.astype")(leaf, self.dtype))
        return self.half[place, leaf]

    def in_dtypes_of(self, expr: Expr, ty: Type | None) -> Expr:
        """`expr` converted back to the dtypes that the program has."""
        if isinstance(ty, TupleType):
            fields = [TupleGetItem(expr, index) for index in range(len(ty.fields))]
            return Tuple(tuple(map(self.in_dtypes_of, fields, ty.fields)))
        same = _dtype(expr.ty) == _dtype(ty)
        return expr if same else get_op("relax.astype")(expr, _dtype(ty))

    def _note_conversion(self, var: Var, call: Call, place: int) -> None:
        """What the program converts from half precision is there in half precision."""
        source = call.args[0] if call.op is get_op("relax.astype") else None
        if isinstance(source, Var) and _dtype(source.ty) == self.dtype:
            self.half[place, var] = source
            self.computed.add(var)


def _dtype(ty: Type | None) -> str | None:
    return ty.dtype if isinstance(ty, TensorType) else None


def _dtype_is(found: Type | None, wanted: Type | None) -> bool:
    if isinstance(found, TupleType) and isinstance(wanted, TupleType):
        return all(map(_dtype_is, found.fields, wanted.fields))
    return _dtype(found) == _dtype(wanted)


def with_dtypes(ty: Type | None, before: str, after: str) -> Type | None:
    """A tensor's type with another dtype."""
    return replace(ty, dtype=after) if isinstance(ty, TensorType) and ty.dtype == before else ty


def _fits(data: np.ndarray[Any, Any], dtype: str) -> bool:
    """Whether the numbers of a constant stay finite in half precision."""
    with np.errstate(over="ignore"):
        return bool(np.all(np.isfinite(data.astype(np_dtype(dtype))) == np.isfinite(data)))
