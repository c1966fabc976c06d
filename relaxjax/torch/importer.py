"""Programs of PyTorch as modules that SetupTrainer takes."""

from collections import Counter, defaultdict
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.builder import BlockBuilder, Names
from relaxjax.ir.expr import Constant, Expr, Tuple, Var
from relaxjax.ir.module import IRModule
from relaxjax.ir.span import add_location
from relaxjax.ir.types import TensorType
from relaxjax.trainable.names import BACKBONE, PARAM_NUM, STATE_NUM

from .aten import TABLE as TABLE  # importing it declares the operators
from .aten.places import INSTEAD
from .aten.promotion import OF_FLOATS, default_dtype, defaulting_to, kind_of
from .aten.table import known
from .chosen import UNKNOWN_SIZE, Chosen, ChosenCount
from .errors import TorchImportError
from .interpreter import OTHERS, Interpreter
from .program import Argument, Array, Graph, Input, Node, Ref, TensorMeta, TorchProgram, nodes_of
from .sizes import Sizes

_OURS = ("aten.", "higher_order.")  # the namespaces of PyTorch's own operators
_MOST_LINES = 3


@dataclass(frozen=True)
class Imported:
    """A module with a `backbone`, its arrays by their variables, and those by torch's names.

    `ranges` are the least and the greatest value of each symbolic size.
    """

    mod: IRModule
    params: Mapping[str, Array]
    states: Mapping[str, Array]
    names: Mapping[str, str]
    ranges: Mapping[str, tuple[int | None, int | None]]


def import_program(program: TorchProgram) -> Imported:
    """The backbone of a program: inputs, parameters and states in, outputs and new states out.

    Parameters that torch does not train, and buffers, are states. Tied weights are one parameter.
    Buffers that no `state_dict` holds and nothing changes are constants.
    """
    check_known(program.name, program.graph, OTHERS)
    with defaulting_to(default_of(program.graph)):
        return _Import(program).run()


class _Import:
    def __init__(self, program: TorchProgram) -> None:
        self._program = program
        self._builder, self._sizes = BlockBuilder(), Sizes()
        self._interpreter = Interpreter(self._builder, self._sizes)
        self._unique = Names().unique
        self._mutated = {one.target for one in program.outputs if one.kind == "buffer"}

    def run(self) -> Imported:
        program, interpreter = self._program, self._interpreter
        names = [one.argument.name for one in program.of_kind("user") if _is_tensor(one, program)]
        self._sizes.settle(size for name in names for size in program.graph.tensors[name].sizes)
        inputs = [self._user_input(one) for one in program.of_kind("user")]
        held = [one for one in program.inputs if one.kind != "user" and not self._is_constant(one)]
        groups = _tied(held, program.weights)
        trained = [one for one in groups if any(i.target in program.trained for i in one)]
        kept = [one for one in groups if one not in trained]
        variables = [(group, self._held(group)) for group in (*trained, *kept)]
        for one in program.inputs:
            if one.kind != "user" and self._is_constant(one):
                interpreter.bind(one.argument.name, Constant(program.weights[one.target]), False)
        for group, var in variables:
            interpreter.bind(group[0].argument.name, var, group in trained)
            for other in group[1:]:
                interpreter.alias(other.argument.name, group[0].argument.name)
        params = [value for _, value in inputs if isinstance(value, Var)]
        params += [var for _, var in variables]
        with self._builder.function(BACKBONE, params):
            with self._builder.dataflow():
                for name, value in inputs:
                    interpreter.bind(name, self._as_found(name, value))
                interpreter.run(program.graph)
                self._check_parameters(trained)
                outputs = self._outputs()
                states = [self._new_state(group) for group in kept]
                results = [self._builder.emit_output(one) for one in (*outputs, *states)]
            self._builder.emit_func_output(
                results[0] if len(results) == 1 else Tuple(tuple(results))
            )
        counts = {PARAM_NUM: len(trained), STATE_NUM: len(kept)}
        arrays = [{var.name: program.weights[group[0].target]} for group, var in variables]
        symbols = {symbol: var.name for symbol, var in self._sizes.symbols.items()}
        return Imported(
            self._builder.get().with_attrs(counts),
            _merged(arrays[: len(trained)]),
            _merged(arrays[len(trained) :]),
            {one.target: var.name for group, var in variables for one in group if one.persistent},
            {symbols[name]: self._range(name) for name in program.ranges if name in symbols},
        )

    def _range(self, symbol: str) -> tuple[int | None, int | None]:
        low, high = self._program.ranges[symbol]
        return self._sizes.extent(symbol, low), self._sizes.extent(symbol, high)

    def _is_constant(self, one: Input) -> bool:
        """Whether nothing changes it, and no `state_dict` holds it."""
        if one.kind == "parameter" or one.target in self._mutated:
            return False
        return one.kind == "constant" or not one.persistent

    def _user_input(self, one: Input) -> tuple[str, Any]:
        if not isinstance(one.argument, Ref):
            return "", one.argument  # a number or None, which the graph holds already
        name = one.argument.name
        meta = self._program.graph.tensors.get(name)
        if meta is None:
            raise TorchImportError(
                f"the input `{name}` is a number, and a backbone takes tensors alone: export with "
                "its value, not with a dynamic one"
            )
        ty = TensorType(tuple(map(self._sizes.given, meta.sizes)), meta.dtype)
        return name, Var(self._unique(name), ty)

    def _as_found(self, name: str, value: Any) -> Any:
        """An input with the sizes that torch found, such as 4 h, which are asked for."""
        if not isinstance(value, Var):
            return value
        meta = self._program.graph.tensors[name]
        wanted = TensorType(tuple(map(self._sizes.dim, meta.sizes)), meta.dtype)
        return value if value.ty == wanted else self._builder.match_cast(value, wanted, name)

    def _held(self, group: Sequence[Input]) -> Var:
        array = self._program.weights[group[0].target]
        is_trained = any(one.target in self._program.trained for one in group)
        if is_trained and array.dtype.kind == "c":
            raise TorchImportError(
                f"the parameter `{group[0].target}` is complex, and no optimizer here moves such: "
                "hold `torch.view_as_real(weight)`, and read it by `torch.view_as_complex`"
            )
        name = "".join(letter if letter.isalnum() else "_" for letter in group[0].target)
        ty = TensorType(array.shape, array.dtype.name)
        return Var(self._unique(name if name.isidentifier() else f"p_{name}"), ty)

    def _outputs(self) -> list[Expr]:
        """The user's results that are tensors; numbers and None are known without running it."""
        outputs = [one for one in self._program.outputs if one.kind == "user"]
        found = [self._interpreter.read(one.argument) for one in outputs]
        for output, value in zip(outputs, found, strict=True):
            if isinstance(value, Chosen | ChosenCount):
                raise self._of_unknown_size(output.argument)
        tensors = [one for one in found if isinstance(one, Expr)]
        if not tensors:
            raise TorchImportError(f"`{self._program.name}` gives no tensor")
        return tensors

    def _of_unknown_size(self, argument: Argument) -> TorchImportError:
        error = TorchImportError(f"{UNKNOWN_SIZE}, and it is a result: choose by torch.where")
        for node in self._program.graph.nodes:
            if isinstance(argument, Ref) and argument.name in node.results:
                add_location(error, node.span)
        return error

    def _new_state(self, group: Sequence[Input]) -> Expr:
        """What the graph says that a buffer becomes, or what was written to it."""
        targets = {one.target for one in group}
        for output in self._program.outputs:
            if output.kind == "buffer" and output.target in targets:
                new: Expr = self._interpreter.read(output.argument)
                return new
        state: Expr = self._interpreter.read(group[0].argument)
        return state

    def _check_parameters(self, trained: Sequence[Sequence[Input]]) -> None:
        for group in trained:
            if self._interpreter.value(group[0].argument).version:
                raise TorchImportError(
                    f"the parameter `{group[0].target}` is written to by the program, which an "
                    "optimizer alone may do here"
                )


def _is_tensor(one: Input, program: TorchProgram) -> bool:
    return isinstance(one.argument, Ref) and one.argument.name in program.graph.tensors


def _tied(held: Sequence[Input], weights: Mapping[str, Array]) -> list[list[Input]]:
    """The inputs, those that are the same tensor together."""
    groups: dict[int, list[Input]] = {}
    for one in held:
        groups.setdefault(id(weights[one.target]), []).append(one)
    return list(groups.values())


def _merged(parts: Sequence[Mapping[str, Array]]) -> dict[str, Array]:
    return {name: array for part in parts for name, array in part.items()}


def default_of(graph: Graph) -> str:
    """The dtype of a float that a node gives which is given no float and no dtype.

    Where there is no such node, it makes no difference.
    """
    for node, metas in nodes_of(graph):
        found = _made_of_none(node, metas)
        if found is not None:
            return found
    return default_dtype()


def _made_of_none(node: Node, metas: Mapping[str, TensorMeta]) -> str | None:
    if not node.target.startswith("aten.") or node.arguments.get("dtype") is not None:
        return None
    given = (one.name for one in _flat(node.arguments.values()) if isinstance(one, Ref))
    if any(kind_of(metas[name].dtype) >= OF_FLOATS for name in given if name in metas):
        return None
    found = [metas[name].dtype for name in _flat(node.results) if name in metas]
    return next((dtype for dtype in found if kind_of(dtype) == OF_FLOATS), None)


def _flat(values: Iterable[Any]) -> Iterator[Any]:
    for one in values:
        if isinstance(one, list | tuple):
            yield from _flat(one)
        else:
            yield one


def check_known(name: str, graph: Graph, others: Container[str]) -> None:
    """Raise where operators are neither known nor `others`: one error for all, with their lines."""
    counts: Counter[str] = Counter()
    lines: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for node, _ in nodes_of(graph):
        if known(node.target) or node.target in others:
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
