"""The graph of a program of PyTorch, node by node, as bindings of Relax."""

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from relaxjax.ir.builder import BlockBuilder, make_function
from relaxjax.ir.dims import DimOp, compare
from relaxjax.ir.expr import Call, Expr, Tuple, TupleGetItem, Var, const
from relaxjax.ir.lattice import Fit, fits
from relaxjax.ir.op import get_op
from relaxjax.ir.span import add_location
from relaxjax.ir.types import TensorType, Type
from relaxjax.ops.emit import call, dtype_of, ndim_of, number

from .aten.pointwise import detach, with_gradient_of
from .aten.promotion import cast
from .aten.shapes import shaped
from .aten.table import TABLE, Entry, functional, in_place, of_out
from .autocast import Autocast, mend_of, region
from .chosen import UNKNOWN_SIZE, Chosen, ChosenCount, computed, concerned, same_value
from .errors import TorchImportError
from .functions import check_detached, check_region
from .loops import over_rows, scan, while_loop
from .program import Argument, Graph, Node, Ref, SubGraph, TensorMeta
from .reentrant import check_differentiable
from .sizes import Sizes
from .tensors import Detached, Tensor, View, is_view

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
# What only checks: sizes and dtypes, which are known here, and values, which it does not change.
_CHECKS = (
    "aten._assert_async.default",
    "aten._assert_async.msg",
    "aten._assert_scalar.default",
    "aten._assert_tensor_metadata.default",
    "aten._linalg_check_errors.default",
    "aten.sym_constrain_range_for_size.default",
    "aten.sym_constrain_range.default",
)
_WITHOUT_GRADIENTS = "higher_order.wrap_with_set_grad_enabled"
_AUTOCAST = "higher_order.wrap_with_autocast"
_COND = "higher_order.cond"
_LOOPS: Mapping[str, Callable[..., Sequence[Expr]]] = {
    "higher_order.scan": scan,
    "higher_order.map_impl": over_rows,
    "higher_order.while_loop": while_loop,
}
# What is no operator of tensors, and is read all the same.
OTHERS = frozenset((*_NUMBERS, *_CHECKS, _WITHOUT_GRADIENTS, _AUTOCAST, _COND, *_LOOPS))
# What a rule raises for arguments that it cannot take, a scalar where it counts axes among them.
_REFUSALS = (TypeError, ValueError, NotImplementedError, LookupError, ArithmeticError)


class Interpreter:
    """Reads nodes into the function that `builder` has open; it holds what each of them gave."""

    def __init__(
        self,
        builder: BlockBuilder,
        sizes: Sizes,
        autocast: Autocast | None = None,
        takes_gradients: bool = True,
    ) -> None:
        self._builder, self._sizes, self._autocast = builder, sizes, autocast
        self._takes_gradients = takes_gradients
        self._values: dict[str, Any] = {}
        self._metas: dict[str, TensorMeta] = {}

    def bind(self, name: str, value: Any, has_gradient: bool = True) -> None:
        """Take `value`, a tensor or a number, for an input of the graph."""
        self._values[name] = Tensor(value, has_gradient) if isinstance(value, Expr) else value

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
            if not enabled:
                check_differentiable(inner.graph)
                check_region(inner.graph)
            self._inline(node, inner, given, enabled, self._autocast)
        elif node.target == _AUTOCAST:
            device, dtype, is_enabled, _, inner, *given = node.arguments.values()
            concerns = any(one.device == device for one in inner.graph.tensors.values())
            within = region(device, dtype, is_enabled) if concerns else self._autocast
            self._inline(node, inner, given, self._takes_gradients, within)
        elif node.target == _COND:
            self._choose(node, *node.arguments.values())
        elif node.target in _LOOPS:
            self._loop(node)
        elif in_place(node.target):
            self._write(node, next(iter(node.arguments)), functional(node.target))
        elif (plain := of_out(node.target)) is not None:
            self._write(node, "out", plain)
        else:
            self._compute(node)

    def _inline(
        self,
        node: Node,
        inner: SubGraph,
        given: Sequence[Argument],
        with_gradients: bool,
        autocast: Autocast | None,
    ) -> None:
        """A graph as part of this one; without gradients, its results are constants to Gradient."""
        within = Interpreter(self._builder, self._sizes, autocast, with_gradients)
        for parameter, argument in zip(inner.graph.inputs, given, strict=True):
            within._values[parameter.name] = self.value(argument)
        outer = list(within._values.values())
        versions = {one.root(): one.root().version for one in outer if isinstance(one, Tensor)}
        within.run(inner.graph)
        if not with_gradients and any(root.has_gradient for root in versions):
            self._keep_still(versions)
        results = [within.value(one) for one in inner.graph.outputs]
        roots = [one.root() for one in (*outer, *results) if isinstance(one, Tensor)]
        for name, value in zip(_flat(node.results), results, strict=True):
            if name is None:
                continue
            # What was written to outside has the gradient that it had.
            is_constant = not with_gradients and not any(value is one for one in outer)
            self._values[name] = self._constant(name, value, roots) if is_constant else value

    def _keep_still(self, versions: Mapping[Tensor, int]) -> None:
        """Make constant to Gradient what was written into buffers, which have no gradient."""
        for root, version in versions.items():
            if not root.has_gradient and root.version != version:
                root.write(self._emit(detach(root.read()), "written"))

    def _constant(self, name: str, value: Any, roots: Sequence[Tensor]) -> Any:
        """What a region without gradients gives; it may share its memory with other tensors."""
        emit = partial(self._emit, name=name)
        if isinstance(value, Chosen):
            return Chosen(emit(detach(value.data)), value.mask)
        if not isinstance(value, Tensor):
            return value
        is_shared = sum(value.root() is one for one in roots) > 1
        return Detached(value, emit) if is_shared else Tensor(emit(detach(value.read())), False)

    def _choose(
        self,
        node: Node,
        condition: Argument,
        true: SubGraph,
        false: SubGraph,
        operands: Sequence[Argument],
    ) -> None:
        """One of two graphs, whose functions take all that they need; sizes they know."""
        chooses = self.read(condition)
        if isinstance(chooses, bool):
            taken = true if chooses else false
            self._inline(node, taken, operands, self._takes_gradients, self._autocast)
            return
        given = list(map(self.read, operands))
        if concerned(node.target, {"operands": given}):
            raise TorchImportError(f"{UNKNOWN_SIZE}, and a branch takes it: choose by torch.where")
        if isinstance(chooses, DimOp):
            chooses = _truth(chooses)
        branches = [self._branch(graph, given) for graph in (false, true)]
        index = cast(chooses, "int32")
        index = shaped(index, []) if ndim_of(index) else index
        tensors = [one for one in given if isinstance(one, Expr)]
        found = self._builder.emit(get_op("lax.switch")(index, *branches, *tensors), "chosen")
        self._bind_found(
            node, [TupleGetItem(found, place) for place in range(len(true.graph.outputs))]
        )

    def _loop(self, node: Node) -> None:
        """One or two graphs, again and again; what they do not carry they see around them."""
        arguments = node.arguments.values()
        given = [one.graph if isinstance(one, SubGraph) else self.read(one) for one in arguments]
        if any(concerned(node.target, {"operands": one}) for one in given if isinstance(one, list)):
            raise TorchImportError(f"{UNKNOWN_SIZE}, and a loop takes it: choose by torch.where")
        self._bind_found(node, _LOOPS[node.target](self._results, *given))

    def _bind_found(self, node: Node, found: Sequence[Expr]) -> None:
        for name, value in zip(_flat(node.results), found, strict=True):
            if name is not None:
                self._values[name] = self._tensor(
                    self._checked(node, name, self._emit(value, name))
                )

    def _branch(self, branch: SubGraph, given: Sequence[Any]) -> Var:
        """A graph as a function of those of its inputs that are tensors."""
        names = (self._builder.get_unique_name(one.name) for one in branch.graph.inputs)
        with self._builder.scope():
            values = [
                Var(name, value.ty) if isinstance(value, Expr) else value
                for name, value in zip(names, given, strict=True)
            ]
            results = Tuple(tuple(self._results(branch.graph, values)))
            body = self._builder.sequence(results)
        function = make_function([one for one in values if isinstance(one, Var)], body)
        return self._builder.emit(function, "branch")

    def _results(self, graph: Graph, values: Sequence[Any]) -> list[Expr]:
        """What a graph gives for values of its inputs, emitted where the builder is."""
        within = Interpreter(self._builder, self._sizes, self._autocast, self._takes_gradients)
        for parameter, value in zip(graph.inputs, values, strict=True):
            within.bind(parameter.name, value)
        within.run(graph)
        return [within.read(one) for one in graph.outputs]

    def _compute(self, node: Node) -> None:
        arguments = self._arguments(node)
        if concerned(node.target, arguments):
            self._compute_chosen(node, arguments)
            return
        entry = TABLE[node.target]
        found = entry.rule(**arguments, **self._layout(node, entry))
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

    def _arguments(self, node: Node) -> Mapping[str, Any]:
        """What a node is given, as it takes it where autocast is on."""
        given = {name: self.read(one) for name, one in node.arguments.items()}
        if self._autocast is None:
            return given
        found = [self._metas[name].dtype for name in _flat(node.results) if name in self._metas]
        return self._autocast.cast(node.target, given, found[0] if found else None)

    def _layout(self, node: Node, entry: Entry) -> Mapping[str, TensorMeta]:
        if not entry.of_memory:
            return {}
        first: Ref = next(iter(node.arguments.values()))
        return {"layout": self._metas[first.name]}

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
                raise self._fault(
                    node, value.data.ty, TensorType(None, meta.dtype, len(meta.sizes))
                )
        elif isinstance(value, Expr):
            return self._tensor(self._checked(node, name, self._emit(value, name)))
        return value

    def _tensor(self, expr: Expr) -> Tensor:
        return Tensor(expr, self._takes_gradients)

    def _same(self, one: Expr, other: Expr) -> bool:
        return same_value(one, other, self._builder.lookup_binding)

    def _bind_result(
        self, node: Node, entry: Entry, name: str, value: Any, place: int | None
    ) -> None:
        if not isinstance(value, Expr):
            self._values[name] = value
            return
        expr = self._checked(node, name, self._emit(value, name))
        self._values[name] = (
            self._view(node, entry, expr, place) if entry.is_view else self._tensor(expr)
        )

    def _view(self, node: Node, entry: Entry, expr: Expr, place: int | None) -> Tensor:
        first, *others = node.arguments
        base = self.value(node.arguments[first])
        if entry.detaches:
            check_detached(node)
            return Detached(base, partial(self._emit, name=_only(node)))
        rest = {name: self.read(node.arguments[name]) for name in others}
        rest |= self._layout(node, entry)

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
                return self._tensor(expr)
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
            new = self._computed_by(node, plain, given)
        if dtype_of(new) != dtype_of(old):
            new = call("astype", new, dtype_of(old))
        if self._takes_gradients:
            target.root().has_gradient = True
        elif target.root().has_gradient:
            new = with_gradient_of(old, new)
        name = _only(node)
        target.write(self._checked(node, name, self._emit(new, name)))
        self._values[name] = target

    def _computed_by(self, node: Node, plain: str, given: Mapping[str, Any]) -> Expr:
        """What the overload gives that writes nowhere; it may name its first argument otherwise."""
        first, *others = given
        rest = {name: given[name] for name in others}
        found: Expr = TABLE[plain].rule(given[first], **rest, **self._layout(node, TABLE[plain]))
        return found

    def _emit(self, expr: Expr, name: str) -> Expr:
        if isinstance(expr, Call | TupleGetItem | Tuple):
            return self._builder.emit(expr, name)
        return expr

    def _checked(self, node: Node, name: str, expr: Expr) -> Expr:
        """What is computed, which must have the dtype and the sizes that torch found.

        Where these say more than its type, as that of `x[:n]` does if x may be shorter, they are
        asked for when the program runs: torch exported it for nothing else.
        """
        meta, ty = self._metas[name], expr.ty
        if isinstance(ty, TensorType) and ty.dims is not None and len(ty.dims) == len(meta.sizes):
            self._sizes.find(meta.sizes, ty.dims)
        sizes = tuple(map(self._sizes.dim, meta.sizes))
        wanted = TensorType(sizes, meta.dtype)
        right = isinstance(ty, TensorType) and ty.dtype == meta.dtype
        if not right or fits(ty, wanted) is Fit.NEVER:
            raise self._fault(node, ty, wanted)
        if fits(ty, wanted) is Fit.ALWAYS:
            return expr
        return self._builder.match_cast(expr, wanted, name)

    def _fault(self, node: Node, found: Type | None, wanted: TensorType) -> TorchImportError:
        mend = "this is a fault of relaxjax, please report it"
        if isinstance(found, TensorType) and found.dtype and wanted.dtype:
            is_inside = self._autocast is not None and self._autocast.dtype is not None
            mend = mend_of(found.dtype, wanted.dtype, is_inside) or mend
        return TorchImportError(
            f"{node.target} gives {found} here, and in PyTorch {wanted}: {mend}"
        )


def _truth(comparison: DimOp) -> Expr:
    """A comparison of sizes as a tensor."""
    signs = {"==": "equal", "!=": "not_equal", "<": "less", "<=": "less_equal"}
    sides = (number(one, const(0, "int64")) for one in (comparison.lhs, comparison.rhs))
    return call(signs[comparison.kind], *sides)


def _flat(results: Sequence[str | tuple[str, ...] | None]) -> list[str | None]:
    return [name for one in results for name in (one if isinstance(one, tuple) else (one,))]


def _only(node: Node) -> str:
    (name,) = _flat(node.results)
    assert name is not None
    return name
