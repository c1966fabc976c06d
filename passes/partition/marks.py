"""Blocks with marks of regions in them, and the same blocks without."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from relaxjax.ir.expr import Call, DataflowVar, Expr, Tuple, Var
from relaxjax.ir.function import Binding, BindingBlock
from relaxjax.ir.infer import infer
from relaxjax.ir.node import replace
from relaxjax.ir.op import get_op, operator_name
from relaxjax.ir.walk import substitute, used_vars

BEGIN, END = "relax.compiler_begin", "relax.compiler_end"


def marked(name: str, data: Expr, compiler: str) -> Expr:
    """`data` behind a mark: the fields of a tuple each, of anything else its variables."""
    if isinstance(data, Tuple):
        return Tuple(tuple(marked(name, item, compiler) for item in data.fields))
    if not isinstance(data, Var | Call):
        return data
    return infer(get_op(name)(data, compiler=compiler))


def mark_of(value: Expr, *names: str) -> Call | None:
    """A value that is one of some marks, None where it is not."""
    return value if isinstance(value, Call) and operator_name(value) in names else None


@dataclass(frozen=True)
class Unmarked:
    """A block without its marks, and what those said of its variables."""

    bindings: tuple[Binding, ...]
    compilers: Mapping[Var, str]
    joined: Sequence[tuple[Var, Var]]  # marked values, one of which takes the other without a mark
    cores: frozenset[Var]  # the marked values, by the names that they have inside


def without_marks(block: BindingBlock) -> Unmarked:
    """A block without marks: values in regions have the names that they have outside, if any."""
    marks = {b.var: m for b in block.bindings if (m := mark_of(b.value, BEGIN, END)) is not None}
    names = _outer_names(marks)
    sources: dict[Var, Expr] = dict(names)
    for var, mark in marks.items():
        if var not in names.values():
            sources[var] = substitute(mark.args[0], sources)
    bindings: list[Binding] = []
    compilers: dict[Var, str] = {}
    joined: list[tuple[Var, Var]] = []
    for binding in block.bindings:
        if binding.var in marks:
            if binding.var not in names.values() and not isinstance(binding.var, DataflowVar):
                bindings.append(replace(binding, value=sources[binding.var]))
            continue
        var = names.get(binding.var, binding.var)
        for used in used_vars(binding.value) if isinstance(binding.value, Call) else ():
            if used in marks and mark_of(marks[used], BEGIN) is not None:
                compilers[var] = marks[used].attrs["compiler"]
            elif used not in marks and names.get(used, used) in compilers:
                source = names.get(used, used)
                compilers[var] = compilers[source]
                joined.append((source, var))
        bindings.append(replace(binding, var=var, value=substitute(binding.value, sources)))
    inner = {name: core for core, name in names.items()}
    cores = frozenset(inner.get(var, var) for var in compilers)
    return Unmarked(tuple(bindings), compilers, joined, cores)


def _outer_names(marks: Mapping[Var, Call]) -> dict[Var, Var]:
    """The names that values in regions have outside: where they first come out."""
    names: dict[Var, Var] = {}
    for var, mark in marks.items():
        inner = mark.args[0]
        if mark_of(mark, END) is not None and isinstance(inner, Var) and inner not in marks:
            names.setdefault(inner, var)
    return names
