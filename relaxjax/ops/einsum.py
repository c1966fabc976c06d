"""Sums of products by Einstein's notation."""

import string
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.layout import OPAQUE
from relaxjax.ir.types import TensorType, TupleType

from .declare import OpError, op
from .emit import call, dims_of, dtype_of, ndim_of
from .joining import fields_of, tensors_of
from .lowered_cost import LOWERED
from .shapes import broadcast_dims, common_dtype, dims_text


@dataclass(frozen=True)
class Notation:
    """The letters of each operand and of the result; an ellipsis is one `.` among them."""

    operands: tuple[str, ...]
    result: str


def parse(subscripts: str, count: int) -> Notation:
    """`subscripts` taken apart; without an arrow the result has what occurs once, in order."""
    text = subscripts.replace(" ", "").replace("...", ".")
    left, arrow, right = text.partition("->")
    operands = tuple(left.split(","))
    if not all(c.isalpha() or c in ".," for c in left) or any(o.count(".") > 1 for o in operands):
        raise OpError(f'`subscripts` must be like "ij,jk->ik", found "{subscripts}"')
    if len(operands) != count:
        raise OpError(f"`subscripts` has {len(operands)} operands, but {count} tensors are given")
    letters = "".join(operands).replace(".", "")
    if not arrow:
        once = sorted(c for c in set(letters) if letters.count(c) == 1)
        right = ("." if "." in left else "") + "".join(once)
    if any(c != "." and c not in letters for c in right) or len(set(right)) < len(right):
        raise OpError(
            f'`subscripts` gives "{right}", which must be letters of its operands, each once'
        )
    return Notation(operands, right)


def _letter_dims(letters: str, dims: Sequence[Dim]) -> tuple[dict[str, Dim], tuple[Dim, ...]]:
    """The dimension of each letter of an operand, and those that its ellipsis stands for."""
    named = len(letters) - letters.count(".")
    if len(dims) < named or ("." not in letters and len(dims) > named):
        raise OpError(
            f'in `subscripts` the operand "{letters.replace(".", "...")}" has {named} letters '
            f"for a tensor of shape {dims_text(dims)}"
        )
    before = letters.index(".") if "." in letters else named
    rest = dims[before : len(dims) - (named - before)]
    places = [*range(before), *range(len(dims) - (named - before), len(dims))]
    sizes: dict[str, Dim] = {}
    for letter, place in zip(letters.replace(".", ""), places, strict=True):
        if can_prove_different(sizes.setdefault(letter, dims[place]), dims[place]):
            raise OpError(f"in `operands` {letter} is both {sizes[letter]} and {dims[place]}")
    return sizes, tuple(rest)


def _einsum_gradient(g: Expr, y: Expr, operands: Expr, subscripts: str) -> Expr:
    fields = fields_of(operands)
    notation = parse(subscripts, len(fields))
    return Tuple(tuple(_adjoint(g, fields, notation, i) for i in range(len(fields))))


def _adjoint(g: Expr, fields: Sequence[Expr], notation: Notation, index: int) -> Expr:
    """The sum with `g` in the place of one operand.

    A letter that only this operand has is repeated by a factor of ones; a letter that it has twice
    reads a diagonal, and its adjoint is written on one by a factor of an identity matrix.
    """
    own = notation.operands[index]
    sizes, _ = _letter_dims(own, dims_of(fields[index]))
    others = [f for i, f in enumerate(fields) if i != index]
    texts = [t for i, t in enumerate(notation.operands) if i != index]
    free = iter(c for c in string.ascii_letters if c not in "".join(notation.operands))
    known, target = set("".join([*texts, notation.result])), ""
    for letter in own:
        if letter != "." and letter in target:
            fresh = next(free)
            others.append(call("eye", sizes[letter], dtype=dtype_of(g)))
            texts.append(letter + fresh)
            letter = fresh
        elif letter != "." and letter not in known:
            others.append(call("ones", (sizes[letter],), dtype_of(g)))
            texts.append(letter)
        target += letter
    inputs = ",".join([notation.result, *texts])
    whole = call("einsum", (g, *others), f"{inputs}->{target}".replace(".", "..."))
    narrower = ndim_of(whole) > ndim_of(fields[index]) or dims_of(whole) != dims_of(fields[index])
    return call("collapse_sum_to", whole, dims_of(fields[index])) if narrower else whole


@op(
    "relax.einsum",
    layout=OPAQUE,
    lower=lambda operands, subscripts: jnp.einsum(subscripts, *operands),
    gradient=_einsum_gradient,
    precision="follow",
    fusion="out_fusable",
    cost=LOWERED,
)
def einsum(operands: TupleType, subscripts: str) -> TensorType:
    """The sum of products that `subscripts` says: "ij,jk->ik" is the product of two matrices.

    A letter that is missing in the result is summed over; without `->` the result has the letters
    that occur once, in alphabetical order.
    """
    types = tensors_of(operands, "operands")
    dtype = common_dtype(**{f"operands[{i}]": ty for i, ty in enumerate(types)})
    notation = parse(subscripts, len(types))
    sizes: dict[str, Dim] = {}
    rest: tuple[Dim, ...] | None = ()
    for letters, ty in zip(notation.operands, types, strict=True):
        if ty.dims is None or rest is None:
            return TensorType(None, dtype, vdevice=types[0].vdevice)
        found, extra = _letter_dims(letters, ty.dims)
        for letter, size in found.items():
            if can_prove_different(sizes.setdefault(letter, size), size):
                raise OpError(f"in `operands` {letter} is both {sizes[letter]} and {size}")
        rest = broadcast_dims(rest, extra, ("`operands`", "one more of them"))
    if rest is None:
        return TensorType(None, dtype, vdevice=types[0].vdevice)
    dims = [dim for c in notation.result for dim in (rest if c == "." else (sizes[c],))]
    return TensorType(dims, dtype, vdevice=types[0].vdevice)
