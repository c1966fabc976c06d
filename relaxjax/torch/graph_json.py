"""The JSON in which PyTorch writes a graph, as plain data."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from relaxjax.ir.span import Span, add_location

from .errors import TorchArchiveError, TorchImportError
from .program import (
    Argument,
    Array,
    Graph,
    Input,
    Node,
    Output,
    Ref,
    SubGraph,
    TensorMeta,
    TorchProgram,
)
from .traces import is_of_function, is_reentrant

# The numbers by which the schema calls dtypes.
DTYPES: Mapping[int, str] = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    10: "complex64",
    11: "complex128",
    12: "bool",
    13: "bfloat16",
    28: "uint16",
    29: "float8_e4m3fn",
    30: "float8_e5m2",
    34: "uint32",
    35: "uint64",
}
_STRIDED = 7
_WITH_EFFECTS = "higher_order.with_effects"
_INPUT_KINDS = {
    "parameter": ("parameter", "parameter_name"),
    "buffer": ("buffer", "buffer_name"),
    "tensor_constant": ("constant", "tensor_constant_name"),
}
_OUTPUT_KINDS = {
    "buffer_mutation": ("buffer", "buffer_name"),
    "user_input_mutation": ("input", "user_input_name"),
    "parameter_mutation": ("parameter", "parameter_name"),
}
_FRAME = re.compile(r'File "([^"\n]+)", line (\d+)')
# What is no line of the user's: the modules of libraries, and torch's own functions.
_LIBRARIES = re.compile(r"[/\\](site|dist)-packages[/\\]|^torch[/\\]|<frozen |<eval_with_key>")


def read_program(
    name: str, data: Mapping[str, Any], weights: Mapping[str, Array], constants: Mapping[str, Array]
) -> TorchProgram:
    module = data["graph_module"]
    graph, signature = read_graph(module["graph"]), module["signature"]
    inputs = tuple(map(_input, _without_tokens(signature["input_specs"])))
    metas = graph.tensors
    trained = frozenset(
        one.target
        for one in inputs
        if one.kind == "parameter" and metas[one.argument.name].requires_grad
    )
    known = {**weights, **{key: value for key, value in constants.items() if key not in weights}}
    for one in inputs:
        if one.kind != "user" and one.target not in known:
            raise TorchArchiveError(f"`{name}` is damaged: it holds no numbers of `{one.target}`")
        if one.kind != "user":
            _check_array(name, one.target, known[one.target], metas[one.argument.name])
    ranges = {
        symbol: (bounds.get("min_val"), bounds.get("max_val"))
        for symbol, bounds in data["range_constraints"].items()
    }
    return TorchProgram(
        name=name,
        graph=graph,
        inputs=inputs,
        outputs=tuple(map(_output, _without_tokens(signature["output_specs"]))),
        weights=known,
        constants=constants,
        trained=trained,
        ranges=ranges,
        torch_version=str(data.get("torch_version", "")),
        decomposed="TRAINING" not in data.get("verifiers", ()),
    )


def _without_tokens(specs: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """What a program is given or gives, but for what only orders its effects."""
    return [one for one in specs if "token" not in one]


def _check_array(name: str, target: str, array: Array, meta: TensorMeta) -> None:
    if array.shape != meta.sizes or array.dtype.name != meta.dtype:
        raise TorchArchiveError(
            f"`{name}` is damaged: `{target}` must be of shape {meta.sizes} and dtype "
            f"{meta.dtype}, but stored is {array.shape} and {array.dtype.name}"
        )


def read_graph(data: Mapping[str, Any]) -> Graph:
    nodes = tuple(map(_node, data["nodes"]))
    return Graph(
        inputs=tuple(map(argument, data["inputs"])),
        nodes=nodes,
        outputs=tuple(map(argument, data["outputs"])),
        tensors={name: _meta(name, one, nodes) for name, one in data["tensor_values"].items()},
    )


def _meta(name: str, data: Mapping[str, Any], nodes: Sequence[Node]) -> TensorMeta:
    if data["dtype"] not in DTYPES or data["layout"] != _STRIDED:
        error = TorchImportError(
            f"the tensor `{name}` has a dtype or a layout that is not there in Relax "
            f"(numbers {data['dtype']} and {data['layout']} of torch's schema)"
        )
        add_location(error, next((one.span for one in nodes if name in one.results), None))
        raise error
    return TensorMeta(
        DTYPES[data["dtype"]],
        tuple(map(_size, data["sizes"])),
        tuple(map(_example, data["sizes"])),
        tuple(map(_example, data["strides"])),
        bool(data["requires_grad"]),
        str(data["device"]["type"]),
        _example(data["storage_offset"]),
    )


def _size(data: Mapping[str, Any]) -> int | str:
    if "as_int" in data:
        return int(data["as_int"])
    return str(data["as_expr"]["expr_str"])


def _example(data: Mapping[str, Any]) -> int:
    hint = data if "as_int" in data else data["as_expr"].get("hint") or {}
    return int(hint.get("as_int", -1))


def _node(data: Mapping[str, Any]) -> Node:
    trace = data["metadata"].get("stack_trace", "")
    span = _span(trace)
    try:
        return replace(
            _node_at(span, data),
            is_reentrant=is_reentrant(trace),
            is_of_function=is_of_function(trace, data["metadata"].get("nn_module_stack", "")),
        )
    except TorchImportError as error:
        add_location(error, span)
        raise


def _node_at(span: Span | None, data: Mapping[str, Any]) -> Node:
    inputs, outputs = data["inputs"], data["outputs"]
    target = str(data["target"]).removeprefix("torch.ops.")
    if target == _WITH_EFFECTS:  # a token that orders effects stands in front of both
        target = str(inputs[1]["arg"]["as_operator"]).removeprefix("torch.ops.")
        inputs, outputs = inputs[2:], outputs[1:]
    elif not target.startswith("higher_order."):
        arguments = {one["name"]: argument(one["arg"]) for one in inputs}
        return Node(target, arguments, tuple(map(_result, outputs)), span)
    # The names of what these are given are all empty.
    arguments = {str(place): argument(one["arg"]) for place, one in enumerate(inputs)}
    return Node(target, arguments, tuple(map(_result, outputs)), span)


def _span(trace: str) -> Span | None:
    """The user's line that is nearest to an operator; else the nearest of a library."""
    frames = [(file, int(line)) for file, line in _FRAME.findall(trace)]
    own = [frame for frame in frames if not _LIBRARIES.search(frame[0])]
    nearest = (own or frames)[-1:]
    return Span(*nearest[0]) if nearest else None


def _result(data: Mapping[str, Any]) -> str | tuple[str, ...] | None:
    found = argument(data)
    if isinstance(found, list):
        return tuple(one.name for one in found)
    return found.name if isinstance(found, Ref) else None


def argument(data: Mapping[str, Any]) -> Argument:
    """An argument, of which JSON has one kind: `{"as_int": 3}`."""
    ((kind, value),) = data.items()
    if kind not in _ARGUMENTS:
        raise TorchImportError(f"an argument of the kind `{kind}` is not read: {value!r:.80}")
    return _ARGUMENTS[kind](value)


def _ref(value: Mapping[str, Any]) -> Ref:
    return Ref(str(value["name"]))


def _number(value: Mapping[str, Any]) -> Argument:
    """A number, or the name of one that is computed."""
    ((kind, number),) = value.items()
    return Ref(str(number)) if kind == "as_name" else number


def _optional(value: Mapping[str, Any]) -> Argument:
    return _ref(value["as_tensor"]) if "as_tensor" in value else None


def _dtype(value: int) -> str:
    if value not in DTYPES:
        raise TorchImportError(f"the dtype with the number {value} of torch's schema is not read")
    return DTYPES[value]


def _listed(read: Callable[[Any], Argument]) -> Callable[[Any], Argument]:
    return lambda values: [read(value) for value in values]


def _float(value: Any) -> float:
    """A float; JSON of torch has infinities and NaN as texts."""
    return float(value)


_ARGUMENTS: Mapping[str, Callable[[Any], Argument]] = {
    "as_none": lambda value: None,
    "as_tensor": _ref,
    "as_tensors": _listed(_ref),
    "as_optional_tensor": _optional,
    "as_optional_tensors": _listed(_optional),
    "as_int": int,
    "as_ints": _listed(int),
    "as_float": _float,
    "as_floats": _listed(_float),
    "as_complex": lambda value: complex(value["real"], value["imag"]),
    "as_bool": bool,
    "as_bools": _listed(bool),
    "as_string": str,
    "as_strings": _listed(str),
    "as_sym_int": _number,
    "as_sym_ints": _listed(_number),
    "as_sym_bool": _number,
    "as_sym_bools": _listed(_number),
    "as_sym_float": _number,
    "as_sym_floats": _listed(_number),
    "as_scalar_type": _dtype,
    "as_memory_format": lambda value: None,
    "as_layout": lambda value: None,
    "as_device": lambda value: None,
    "as_graph": lambda value: SubGraph(read_graph(value["graph"])),
}


def _input(data: Mapping[str, Any]) -> Input:
    ((kind, spec),) = data.items()
    if kind == "user_input":
        return Input("user", argument(spec["arg"]))
    if kind == "constant_input":  # a number, a truth or a text, whose value the graph holds
        return Input("user", argument(spec["value"]))
    if kind not in _INPUT_KINDS:
        raise TorchImportError(f"an input of the kind `{kind}` is not read: {spec!r:.80}")
    ours, label = _INPUT_KINDS[kind]
    persistent = bool(spec.get("persistent", True))
    return Input(ours, _ref(spec["arg"]), str(spec[label]), persistent)


def _output(data: Mapping[str, Any]) -> Output:
    ((kind, spec),) = data.items()
    if kind == "user_output":
        return Output("user", argument(spec["arg"]))
    if kind not in _OUTPUT_KINDS:
        raise TorchImportError(f"an output of the kind `{kind}` is not read: {spec!r:.80}")
    ours, label = _OUTPUT_KINDS[kind]
    return Output(ours, _ref(spec["arg"]), str(spec[label]))
