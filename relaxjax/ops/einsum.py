"""Sums of products by Einstein's notation."""

import string
from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp

from relaxjax.ir.dims import Dim, can_prove_different
from relaxjax.ir.expr import Expr, Tuple
from relaxjax.ir.types import TensorType, TupleType

from .declare import OpError, op
from .emit import call, dims_of, dtype_of, tensor_type
from .joining import tensors_of
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


def _sizes(operands: Sequence[str], shapes: Sequence[Sequence[Dim]]) -> dict[str, Dim | None]:
    """The size of each letter, which operands may have as 1; None where symbols leave it open."""
    sizes: dict[str, Dim | None] = {}
    for letters, dims in zip(operands, shapes, strict=True):
        for letter, size in _letter_dims(letters, dims)[0].items():
            other = sizes.get(letter, 1)
            if isinstance(other, int) and isinstance(size, int) and 1 != other != size != 1:
                raise OpError(f"in `operands` {letter} is both {other} and {size}")
            one = None if other is None else broadcast_dims((other,), (size,), ("", ""))
            sizes[letter] = None if one is None else one[0]
    return sizes


def _einsum_gradient(g: Expr, y: Expr, operands: Expr, subscripts: str) -> Expr:
    fields = list(operands)
    notation = parse(subscripts, len(fields))
    return Tuple(tuple(_adjoint(g, fields, notation, i) for i in range(len(fields))))


def _adjoint(g: Expr, fields: Sequence[Expr], notation: Notation, index: int) -> Expr:
    """The sum with `g` in the place of one operand.

    A letter that only this operand has, or only this one at another size than 1, is repeated by a
    factor of ones, and so is an ellipsis that the result sums over; a letter that it has twice
    reads a diagonal, and its adjoint is written on one by a factor of an identity matrix.
    """
    own = notation.operands[index]
    sizes, rest = _letter_dims(own, dims_of(fields[index]))
    others = [f for i, f in enumerate(fields) if i != index]
    texts = [t for i, t in enumerate(notation.operands) if i != index]
    free = iter(c for c in string.ascii_letters if c not in "".join(notation.operands))
    known, target = set("".join([*texts, notation.result])), ""
    beside = _sizes(texts, list(map(dims_of, others)))
    wide = {*notation.result, *(letter for letter, size in beside.items() if size != 1)}
    for letter in own:
        if letter != "." and letter in target:
            fresh = next(free)
            others.append(call("eye", sizes[letter], dtype=dtype_of(g)))
            texts.append(letter + fresh)
            letter = fresh
        elif letter != "." and (letter not in known or (letter not in wide and sizes[letter] != 1)):
            others.append(call("ones", (sizes[letter],), dtype_of(g)))
            texts.append(letter)
        target += letter
    if rest and "." not in notation.result:
        others.append(call("ones", rest, dtype_of(g)))
        texts.append(".")
    inputs = ",".join([notation.result, *texts])
    whole = call("einsum", (g, *others), f"{inputs}->{target}".replace(".", "..."))
    dims = dims_of(fields[index])
    return whole if tensor_type(whole).dims == dims else call("collapse_sum_to", whole, dims)


@op(
    "relax.einsum",
    lower=lambda operands, subscripts: jnp.einsum(subscripts, *operands),
    gradient=_einsum_gradient,
    precision="follow",
    fusion="out_fusable",
    cost=LOWERED,
)
def einsum(operands: TupleType, subscripts: str) -> TensorType:
    """The sum of products that `subscripts` says: "ij,jk->ik" is the product of two matrices.

    A letter or an ellipsis that is missing in the result is summed over; without `->` the result
    has the letters that occur once, in alphabetical order. Where operands have 1 for a letter, and
    others another size, they are repeated.
    """
    types = tensors_of(operands, "operands")
    dtype = common_dtype(**{f"operands[{i}]": ty for i, ty in enumerate(types)})
    notation = parse(subscripts, len(types))
    rest: tuple[Dim, ...] = ()
    shapes = [ty.dims for ty in types]
    known = [dims for dims in shapes if dims is not None]
    ndim = -1 if "." in notation.result else len(notation.result)
    unknown = TensorType(None, dtype, ndim, types[0].vdevice)
    if len(known) < len(shapes):
        return unknown
    for letters, dims in zip(notation.operands, known, strict=True):
        extra = _letter_dims(letters, dims)[1]
        together = broadcast_dims(rest, extra, ("`operands`", "one more of them"))
        if together is None:
            return unknown
        rest = together
    sizes = _sizes(notation.operands, known)
    found: list[Dim | None] = []
    for letter in notation.result:
        found += rest if letter == "." else [sizes[letter]]
    given = [dim for dim in found if dim is not None]
    shape = given if len(given) == len(found) else None
    return TensorType(shape, dtype, len(found), types[0].vdevice)
