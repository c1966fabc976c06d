"""The graph of a program of PyTorch, node by node, as bindings of Relax."""

import operator
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.dims import can_prove_different, compare
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem
from relaxjax.ir.span import add_location
from relaxjax.ir.types import TensorType, Type
from relaxjax.ops.emit import call, dtype_of

from .aten.places import INSTEAD
from .aten.table import TABLE, Entry, functional, in_place, known, of_out
from .chosen import BY_MASK, UNKNOWN_SIZE, Chosen, ChosenCount, computed, concerned, same_value
from .errors import TorchImportError
from .program import Argument, Graph, Node, Ref, SubGraph, TensorMeta
from .sizes import Sizes
from .tensors import Tensor, View, is_view

_NUMBERS: Mapping[str, Callable[..., Any]] = {
    **{
        f"_operator.{name}": getattr(operator, name)
        for name in ("add", "sub", "mul", "floordiv", "mod", "neg", "pow", "and_", "or_", "not_")
    },
    **{
        f"_operator.{name}": partial(compare, sign)
        for name, sign in zip(
            ("eq", "ne", "lt", "le", "gt", "ge"), ("==", "!=", "<", "<=", ">", ">="), strict=True
        )
    },
}
# What only checks sizes and dtypes that are known here.
_CHECKS = (
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
)
_WITHOUT_GRADIENTS = "higher_order.wrap_with_set_grad_enabled"
_AUTOCAST = "higher_order.wrap_with_autocast"
_OURS = ("aten.", "higher_order.")  # the namespaces of PyTorch's own operators
_MOST_LINES = 3
# What a rule raises for arguments that it cannot take, a scalar where it counts axes among them.
_REFUSALS = (TypeError, ValueError, NotImplementedError, LookupError, ArithmeticError)


class Interpreter:
    """Reads nodes into the function that `builder` has open; it holds what each of them gave."""

    def __init__(self, builder: BlockBuilder, sizes: Sizes) -> None:
        self._builder, self._sizes = builder, sizes
        self._values: dict[str, Any] = {}
        self._metas: dict[str, TensorMeta] = {}

    def bind(self, name: str, value: Any) -> None:
        """Take `value`, a tensor or a number, for an input of the graph."""
        self._values[name] = Tensor(value) if isinstance(value, Expr) else value

    def alias(self, name: str, other: str) -> None:
        """Take an input of the graph for the same tensor as another."""
        self._values[name] = self._values[other]

    def read(self, argument: Argument) -> Any:
        """An argument as it is at this point of the program: an expression, or a number."""
        value = self.value(argument)
        if isinstance(value, list):
            return [one.read() if isinstance(one, Tensor) else one for one in value]
        return value.read() if isinstance(value, Tensor) else value

    def value(self, argument: Argument) -> Any:
        if isinstance(argument, list):
            return [self.value(one) for one in argument]
        if not isinstance(argument, Ref):
            return argument
        if argument.name not in self._values:
            raise TorchImportError(
                f"`{argument.name}` is used, which is not computed here, such as the places of "
                "the largest elements beside what a pooling gives"
            )
        return self._values[argument.name]

    def run(self, graph: Graph) -> None:
        self._metas.update(graph.tensors)
        for node in graph.nodes:
            with self._builder.origin(node.span):
                try:
                    self._run(node)
                except TorchImportError as error:
                    add_location(error, node.span)
                    raise
                except _REFUSALS as error:
                    found = TorchImportError(f"{node.target}: {error}")
                    add_location(found, node.span)
                    raise found from error

    def _run(self, node: Node) -> None:
        if node.target in _CHECKS:
            return
        if node.target in _NUMBERS:
            numbers = list(map(self.read, node.arguments.values()))
            is_known = not any(isinstance(one, ChosenCount) for one in numbers)
            self._values[_only(node)] = (
                _NUMBERS[node.target](*numbers) if is_known else ChosenCount()
            )
        elif node.target == _WITHOUT_GRADIENTS:
            enabled, inner, *given = node.arguments.values()
            self._inline(node, inner, given, enabled)
        elif node.target == _AUTOCAST:
            *_, inner = (one for one in node.arguments.values() if isinstance(one, SubGraph))
            place = list(node.arguments.values()).index(inner)
            if list(node.arguments.values())[2]:  # whether it is enabled
                raise TorchImportError("autocast is not read: export without it")
            self._inline(node, inner, list(node.arguments.values())[place + 1 :], True)
        elif in_place(node.target):
            self._write(node, next(iter(node.arguments)), functional(node.target))
        elif (plain := of_out(node.target)) is not None:
            self._write(node, "out", plain)
        else:
            self._compute(node)

    def _inline(
        self, node: Node, inner: SubGraph, given: Sequence[Argument], with_gradients: bool
    ) -> None:
        """A graph as part of this one; without gradients, its results are constants to Gradient."""
        within = Interpreter(self._builder, self._sizes)
        for parameter, argument in zip(inner.graph.inputs, given, strict=True):
            within._values[parameter.name] = self.value(argument)
        within.run(inner.graph)
        for name, result in zip(_flat(node.results), inner.graph.outputs, strict=True):
            value = within.value(result)
            if name is None:
                continue
            if not with_gradients and isinstance(value, Tensor):
                value = Tensor(self._emit(call("grad.no_grad", value.read()), name))
            elif not with_gradients and isinstance(value, Chosen):
                data = self._emit(call("grad.no_grad", value.data), name)
                value = Chosen(data, value.mask)
            self._values[name] = value

    def _compute(self, node: Node) -> None:
        arguments = {name: self.read(one) for name, one in node.arguments.items()}
        if concerned(node.target, arguments):
            self._compute_chosen(node, arguments)
            return
        entry = TABLE[node.target]
        found = entry.rule(**arguments)
        values = list(found) if isinstance(found, tuple | list) else [found]
        written = values[len(values) - len(entry.writes) :] if entry.writes else []
        for written_to, new in zip(entry.writes, written, strict=True):
            if new is not None:
                target = self.value(node.arguments[written_to])
                target.write(self._emit(new, f"{written_to}_new"))
        is_one = not isinstance(found, tuple | list)
        for place, (name, value) in enumerate(zip(_flat(node.results), values, strict=False)):
            if name is not None:
                self._bind_result(node, entry, name, value, None if is_one else place)

    def _compute_chosen(self, node: Node, arguments: Mapping[str, Any]) -> None:
        """What is computed of elements that a mask chooses; they are a tensor again in the end."""
        found = computed(node.target, arguments, self._same)
        values = found if isinstance(found, list) else [found]
        for name, value in zip(_flat(node.results), values, strict=True):
            if name is not None:
                self._values[name] = self._bound(node, name, value)

    def _bound(self, node: Node, name: str, value: Any) -> Any:
        """A value under a name: what is chosen, a tensor or a number."""
        if isinstance(value, Chosen):
            value = Chosen(self._emit(value.data, name), value.mask)
            meta = self._metas[name]
            if (dtype_of(value.data), value.rest + 1) != (meta.dtype, len(meta.sizes)):
                raise _fault(node, value.data.ty, TensorType(None, meta.dtype, len(meta.sizes)))
        elif isinstance(value, Expr):
            expr = self._emit(value, name)
            self._check(node, name, expr)
            return Tensor(expr)
        return value

    def _same(self, one: Expr, other: Expr) -> bool:
        return same_value(one, other, self._builder.lookup_binding)

    def _bind_result(
        self, node: Node, entry: Entry, name: str, value: Any, place: int | None
    ) -> None:
        if not isinstance(value, Expr):
            self._values[name] = value
            return
        expr = self._emit(value, name)
        self._check(node, name, expr)
        self._values[name] = self._view(node, entry, expr, place) if entry.is_view else Tensor(expr)

    def _view(self, node: Node, entry: Entry, expr: Expr, place: int | None) -> Tensor:
        first, *others = node.arguments
        base = self.value(node.arguments[first])
        rest = {name: self.read(node.arguments[name]) for name in others}

        def get(whole: Expr) -> Expr:
            found = entry.rule(**{first: whole}, **rest)
            return self._emit(found if place is None else found[place], "view")

        def put(whole: Expr, part: Expr) -> Expr:
            assert entry.put is not None
            given = rest if place is None else {**rest, "place": place}
            return self._emit(entry.put(whole, part, **given), "written")

        is_certain = True
        if entry.may_copy:
            shares = self._shares(node.arguments[first], expr, node)
            if shares is False:
                return Tensor(expr)
            is_certain = shares is True
        return View(base, expr, get, put if entry.put else None, is_certain)

    def _shares(self, argument: Argument, expr: Expr, node: Node) -> bool | None:
        """Whether an operator that may copy its first argument does not."""
        old, new = self._metas.get(argument.name), self._metas.get(_only(node))
        if old is None or new is None:
            return None
        if old.dtype != new.dtype or node.arguments.get("copy"):
            return False
        if old.example == new.example:
            return old.strides == new.strides
        return is_view(old.example, old.strides, new.example)

    def _write(self, node: Node, into: str, plain: str) -> None:
        """An operator that writes what another one computes to one of its arguments."""
        target = self.value(node.arguments[into])
        if not isinstance(target, Tensor):
            raise TorchImportError(f"{UNKNOWN_SIZE}, and it is written to: choose by torch.where")
        old = target.read()
        given = {name: self.read(one) for name, one in node.arguments.items() if name != "out"}
        if concerned(plain, given):
            new = computed(plain, given, self._same)
        else:
            new = TABLE[plain].rule(**given)
        if dtype_of(new) != dtype_of(old):
            new = call("astype", new, dtype_of(old))
        name = _only(node)
        target.write(self._emit(new, name))
        self._check(node, name, target.read())
        self._values[name] = target

    def _emit(self, expr: Expr, name: str) -> Expr:
        if isinstance(expr, Call | TupleGetItem | Tuple):
            return self._builder.emit(expr, name)
        return expr

    def _check(self, node: Node, name: str, expr: Expr) -> None:
        """What is computed must have the dtype and the sizes that torch found when exporting."""
        meta, ty = self._metas[name], expr.ty
        sizes = tuple(map(self._sizes.dim, meta.sizes))
        right = isinstance(ty, TensorType) and ty.dtype == meta.dtype
        if right and isinstance(ty, TensorType) and ty.dims is not None:
            right = len(ty.dims) == len(sizes) and not any(map(can_prove_different, ty.dims, sizes))
        if not right:
            raise _fault(node, ty, TensorType(sizes, meta.dtype))


def _fault(node: Node, found: Type | None, wanted: Type) -> TorchImportError:
    return TorchImportError(
        f"{node.target} gives {found} here, and in PyTorch {wanted}: this is a fault of relaxjax, "
        "please report it"
    )


def _flat(results: Sequence[str | tuple[str, ...] | None]) -> list[str | None]:
    return [name for one in results for name in (one if isinstance(one, tuple) else (one,))]


def _only(node: Node) -> str:
    (name,) = _flat(node.results)
    assert name is not None
    return name


def check_known(name: str, graph: Graph) -> None:
    """Raise where operators are not known: one error for all of them, with their lines."""
    counts: Counter[str] = Counter()
    lines: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for node in _nodes(graph):
        others = (*_NUMBERS, *_CHECKS, _WITHOUT_GRADIENTS, _AUTOCAST)
        if known(node.target) or node.target in (*others, BY_MASK):
            continue
        counts[node.target] += 1
        if node.span is not None:
            lines[node.target][f"{node.span.file}:{node.span.line}"] = None
    if not counts:
        return
    rows = []
    for target, count in counts.most_common():
        places = list(lines[target])
        more = f", and {len(places) - _MOST_LINES} other lines" if len(places) > _MOST_LINES else ""
        where = f", at {', '.join(places[:_MOST_LINES])}{more}" if places else ""
        instead = INSTEAD.get(target.split(".")[1]) if target.startswith(_OURS) else None
        mend = "" if instead is None else f"; {instead}"
        rows.append(f"  {target}, {count} time{'s' if count > 1 else ''}{where}{mend}")
    listed = "\n".join(rows)
    raise TorchImportError(
        f"`{name}` uses operators of PyTorch that are not known here:\n{listed}\n"
        "Say it in other operators, or give `program.run_decompositions()`, which spells many of "
        "them out, but forgets `detach` and `no_grad`"
    )


def _nodes(graph: Graph) -> Iterator[Node]:
    for node in graph.nodes:
        yield node
        for argument in node.arguments.values():
            if isinstance(argument, SubGraph):
                yield from _nodes(argument.graph)
