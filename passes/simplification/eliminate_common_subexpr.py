"""Computing the same value once."""

from collections.abc import Callable, Iterator, Mapping

from relaxjax.ir.attrs import Attrs
from relaxjax.ir.expr import Call, DataflowVar, Expr, Tuple, TupleGetItem, Var
from relaxjax.ir.function import Binding, Function, MatchCast, SeqExpr, VarBinding
from relaxjax.ir.infer import is_pure_call
from relaxjax.ir.module import IRModule
from relaxjax.ir.node import replace
from relaxjax.ir.op import Op, get_op
from relaxjax.ir.scoped import Scoped
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.types import Type
from relaxjax.ir.walk import is_call_of_leaves, kept, map_bindings, map_children, substitute
from relaxjax.passes.infrastructure.base import pass_factory

Skip = Callable[[Expr], bool]


@pass_factory(opt_level=3, kind="function")
def EliminateCommonSubexpr(
    function: Function, mod: IRModule, call_only: bool = False, fskip: Skip | None = None
) -> Function:
    """Bind a value that is computed twice to its first variable; `f(x, y)` may stand for `f(y, x)`.

    Only pure values count, and only where the first variable is visible, or hidden in a dataflow
    block before: then that gives it to the rest. So do casts of one value to one type. With
    `call_only` tuples and their fields are left alone; `fskip` says of which values nothing is
    assumed. Of two matrix products that are each other's transpose, the second becomes the
    transpose of the first.
    """
    return replace(function, body=_Sharing(call_only, fskip).sequence(function.body))


class _Sharing:
    """Shares what one sequence computes; `seen` leads from values to the variables they have.

    What a sequence inside of another adds to what is known there is forgotten behind it.
    """

    def __init__(self, call_only: bool, skip: Skip | None, outer: "_Sharing | None" = None) -> None:
        self.call_only = call_only
        self.skip = skip
        self.seen: Scoped[Expr, Var] = outer.seen.new_child() if outer else Scoped()
        # What variables are the transposes of.
        self.transposes: Scoped[Var, Expr] = outer.transposes.new_child() if outer else Scoped()
        self.casts: dict[tuple[Expr, Type], Var] = {}
        self.names: dict[Var, Expr] = {}
        # Keys of all of these for what only the block that is open can see.
        self.inside: list[Expr] = []
        self.casts_inside: list[tuple[Expr, Type]] = []
        self.names_inside: list[Var] = []
        self.hidden: dict[Expr, Var] = {}  # what blocks that have ended hide
        self.shown: dict[Var, Expr] = {}

    def sequence(self, seq: SeqExpr) -> SeqExpr:
        blocks = []
        for block in seq.blocks:
            changed = map_bindings(SeqExpr((block,), seq.body), self.binding).blocks[0]
            blocks.append(changed)
            self.end_block(is_last=block is seq.blocks[-1])
        if all(a is b for a, b in zip(blocks, seq.blocks, strict=True)):
            return seq
        result = replace(seq, blocks=tuple(blocks), body=substitute(seq.body, self.names))
        return map_bindings(result, self.showing) if self.shown else result

    def binding(self, binding: Binding) -> Binding:
        binding = replace(binding, value=self.nested(substitute(binding.value, self.names)))
        key = self.key(binding) if isinstance(binding, VarBinding) else None
        first = self.first(binding, key)
        if first is not None and first.ty == binding.var.ty:
            self.names[binding.var] = first
            if isinstance(first, DataflowVar):
                self.names_inside.append(binding.var)
            return VarBinding(binding.var, first, span=binding.span)
        return binding if first is not None else self.new(binding, key)

    def first(self, binding: Binding, key: Expr | None) -> Var | None:
        """The variable that has the value of a binding already."""
        if isinstance(binding, MatchCast):
            return self.casts.get((binding.value, binding.ty))
        if key is None:
            return None
        if self.hidden and key in self.hidden and key not in self.seen:
            hidden = self.hidden[key]
            if hidden.ty == binding.var.ty:
                self.seen[key] = Var(hidden.name, hidden.ty, span=hidden.span)
                self.shown[hidden] = self.seen[key]
        return self.seen.find(key)

    def new(self, binding: Binding, key: Expr | None) -> Binding:
        """A binding of a value that no variable has so far."""
        if isinstance(binding, MatchCast):
            self.casts[binding.value, binding.ty] = binding.var
            if isinstance(binding.var, DataflowVar):
                self.casts_inside.append((binding.value, binding.ty))
            return binding
        if key is None:
            return binding
        transpose = transposed_twin(binding.value, self.seen, self.transposes)
        self.seen[key] = binding.var
        if isinstance(binding.var, DataflowVar):
            self.inside.append(key)
        if (source := transposed_by(key)) is not None:
            self.transposes[binding.var] = source
        if transpose is None or transpose.ty != binding.var.ty:
            return binding
        return replace(binding, value=transpose)

    def key(self, binding: VarBinding) -> Expr | None:
        key = _key(binding.value, self.call_only)
        return None if self.skip is not None and self.skip(binding.value) else key

    def nested(self, value: Expr) -> Expr:
        if isinstance(value, SeqExpr):
            return _Sharing(self.call_only, self.skip, self).sequence(value)
        if is_call_of_leaves(value):
            return value
        return map_children(value, self.nested)

    def end_block(self, is_last: bool) -> None:
        """What only a block could see stands for nothing any more, now that it has ended."""
        # Behind the last one no value is looked for.
        for key in () if is_last else self.inside:
            if isinstance(var := self.seen.find(key), DataflowVar):
                self.hidden[key] = var
                del self.seen[key]
        for cast in self.casts_inside:
            self.casts.pop(cast, None)
        for name in self.names_inside:
            self.names.pop(name, None)
        self.inside, self.casts_inside, self.names_inside = [], [], []

    def showing(self, binding: Binding) -> Binding:
        """A binding over variables that their block hides no more."""
        var = self.shown.get(binding.var, binding.var)
        assert isinstance(var, Var)
        return replace(binding, var=var, value=substitute(binding.value, self.shown))


def _key(value: Expr, call_only: bool) -> Expr | None:
    """What two values must share to be the same, None for a value that is not to be merged."""
    match value:
        case Call() if is_pure_call(value):
            if isinstance(value.op, Op) and value.op.draws:
                return None
            if isinstance(value.op, Op) and value.op.facts.get("commutative"):
                return replace(value, args=kept(value.args, sorted(value.args, key=hash)))
            return value
        case Tuple() | TupleGetItem():
            return None if call_only else value
        case _:
            return None


_AXES = (None, (1, 0))


def transposed_by(value: Expr) -> Expr | None:
    """The matrix that a value is the transpose of, None where it is none."""
    if not isinstance(value, Call) or value.op is not get_op("relax.permute_dims"):
        return None
    return value.args[0] if value.attrs["axes"] in _AXES else None


def transposed_twin(
    value: Expr, seen: Mapping[Expr, Var], transposes: Mapping[Var, Expr]
) -> Expr | None:
    """The transpose of a product in `seen` that a product of matrices is, None where none is.

    `transposes` says of variables what they are the transposes of.
    """
    if not isinstance(value, Call) or not isinstance(value.op, Op):
        return None
    if value.op.name != "relax.matmul" or not all(map(_is_matrix, value.args)):
        return None
    a, b = value.args
    for first in _transposes(b, seen, transposes):
        for second in _transposes(a, seen, transposes):
            twin = seen.get(replace(value, args=(first, second), ty=None))
            if twin is not None:
                return get_op("relax.permute_dims")(twin)
    return None


def _transposes(
    x: Expr, seen: Mapping[Expr, Var], transposes: Mapping[Var, Expr]
) -> Iterator[Expr]:
    """What is known to be the transpose of a matrix."""
    permute = get_op("relax.permute_dims")
    for axes in _AXES:
        var = seen.get(Call(permute, (x,), Attrs(axes=axes)))
        if var is not None:
            yield var
    if isinstance(x, Var) and x in transposes:
        yield transposes[x]


def _is_matrix(x: Expr) -> bool:
    return known_ndim(x) == 2
