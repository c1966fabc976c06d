"""The tensors in a nest of tuples, each by its path: the indices that lead to it."""

from collections.abc import Mapping, Sequence

from relaxjax.ir.derivatives import carries_gradient
from relaxjax.ir.expr import Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import BindingBlock, SeqExpr, VarBinding
from relaxjax.ir.tuples import Path, field_of, leaf_types
from relaxjax.ir.types import TupleType, Type
from relaxjax.ir.walk import rewrite

from .adjoint import Adjoint, zeros
from .dependence import Dependent, depends, part_at


def unpacked(seq: SeqExpr, var: Var) -> tuple[SeqExpr, dict[Path, Var]]:
    """A sequence in terms of variables for the tensors in the tuple `var`, and their paths.

    They have the names that the sequence has for them.
    """
    paths: dict[Expr, Path] = {var: ()}
    names: dict[Path, str] = {}
    for binding in seq.bindings():
        match binding:
            case VarBinding(
                var=part, value=TupleGetItem(tuple_value=Var() as whole, index=index)
            ) if whole in paths:
                paths[part] = (*paths[whole], index)
                names.setdefault(paths[part], part.name)
    tensors = {p: Var(names.get(p, var.name), ty) if p else var for p, ty in leaf_types(var.ty)}

    def rule(expr: Expr) -> Expr:
        if isinstance(expr, TupleGetItem):
            return field_of(expr.tuple_value, expr.index)
        return packed(tensors, paths[expr], expr.ty) if expr in paths else expr

    bindings = tuple(binding for binding in seq.bindings() if binding.var not in paths)
    rest = rewrite(SeqExpr((BindingBlock(bindings),) if bindings else (), seq.body), rule)
    return rest, tensors


def dependent_paths(tensors: Mapping[Path, Var], parts: Dependent) -> list[Path]:
    """The paths to the tensors of a value whose dependent parts are `parts`."""
    return [
        path
        for path, var in tensors.items()
        if carries_gradient(var.ty) and depends(part_at(parts, path))
    ]


def by_path(values: Expr, paths: Sequence[Path]) -> dict[Path, Expr]:
    """The fields of a flat tuple by the paths that they have in a nest."""
    return {path: TupleGetItem(values, index) for index, path in enumerate(paths)}


def add_at(adjoint: Adjoint, value: Expr, parts: Mapping[Path, Expr], path: Path = ()) -> None:
    """Add the adjoints of some tensors in `value`, by their paths, to those of the value."""
    if path in parts:
        adjoint.add(value, parts[path])
    elif isinstance(value, Tuple):
        for index, field in enumerate(value.fields):
            add_at(adjoint, field, parts, (*path, index))
    elif any(known[: len(path)] == path for known in parts):
        adjoint.add(value, packed(parts, path, value.ty))


def packed(parts: Mapping[Path, Expr], path: Path, ty: Type | None) -> Expr:
    """What stands at a path of a nest of these parts, with zeros for those left out."""
    if path in parts:
        return parts[path]
    if not isinstance(ty, TupleType):
        return zeros(ty)
    fields = enumerate(ty.fields)
    return Tuple(tuple(packed(parts, (*path, index), field) for index, field in fields))
