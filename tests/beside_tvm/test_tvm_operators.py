"""Every operator printed, read by TVM, typed by TVM as by us, and its print read back.

TVM is asked once, in a process of its own, by the interpreter that the environment variable
`RELAXJAX_TVM_PYTHON` names. Without it these tests are skipped.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from asking_tvm import asked_of_tvm, tvm_python
from operator_evaluation import call_of
from operator_sample_table import SAMPLES
from parsing import parse_module

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax import BlockBuilder, Constant, IRModule, TensorType, Tuple, TupleType
from relaxjax.ir.device_mesh import MESHES, DeviceMesh, Placement
from relaxjax.ir.global_info import VDevice
from relaxjax.ir.node import replace
from relaxjax.ir.op import OPS, get_op
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.walk import expr_symbols, post_order, type_symbols
from relaxjax.ops import OpError
from relaxjax.script.errors import ScriptError

tvm_python(whole_file=True)  # thousands of cases, each of which would be made only to be skipped

# Where TVM differs and we mean to: each with what it does.
DIFFERENT = {
    "relax.meshgrid-1-static": 'forgets in the type that indexing="xy" swaps the first two axes',
    "relax.nn.attention_var_len-0": "prints the arguments in another order than it reads them",
    "relax.nn.attention_var_len-1": "prints the arguments in another order than it reads them",
    "relax.nn.attention_var_len-2": "prints the arguments in another order than it reads them",
    "relax.nn.attention_var_len-3": "prints the arguments in another order than it reads them",
    "relax.nn.attention_var_len-4": "prints the arguments in another order than it reads them",
    "relax.index_put-2": "wants as many tensors of indices as the data has dimensions",
    "relax.reshape-4": "reads the 0 of a tensor without elements as `copy the dimension`",
    "relax.reshape-7": "reads the 0 of a tensor without elements as `copy the dimension`",
    "relax.assert_op-1": "does not read what it prints for several arguments",
    "relax.shape_of-1": "forgets the shape of a scalar",
    "relax.inspect.": "does not read the namespace that it prints",
    "relax.layout_transform-5": "takes no number for a place",
    "relax.strided_slice-4": "gives a slice whose end is before its begin a negative length",
}


# What the types of the arguments say.
Known: TypeAlias = Callable[[TensorType], TensorType]
KNOWN: dict[str, Known] = {
    "static": lambda ty: ty,
    "symbolic": lambda ty: ty,
    "rank": lambda ty: TensorType(None, ty.dtype, ty.ndim),
    "dtype": lambda ty: TensorType(None, ty.dtype),
    "shape": lambda ty: TensorType(ty.shape, None),
}

# What names a device needs a module that knows it.
ON_DEVICES = {"relax.to_vdevice", "relax.hint_on_device"}
DEVICES = {"vdevice": (VDevice("llvm", 0), VDevice("llvm", 1), VDevice("cuda", 0))}

UNKNOWN = ("rank", "dtype", "shape")
CRASHED = "TVM crashed"


def _module(name: str, index: int, known: str) -> IRModule:
    """A module that makes one call; a symbol that no parameter defines is left at its value."""
    op, sample = get_op(name), SAMPLES[name][index]
    mesh = next((one for one in sample.args if isinstance(one, DeviceMesh)), None)
    knowing = KNOWN[known] if mesh is None else _on_mesh(KNOWN[known], mesh)
    call, arrays = call_of(op, sample, known == "symbolic", knowing)
    defined = {symbol for var in arrays for symbol in type_symbols(var.ty)}
    if not defined.issuperset(expr_symbols(call)):
        call, arrays = call_of(op, sample)
    builder = BlockBuilder()
    with builder.function("main", list(arrays), pure=get_op(name).pure):
        result = builder.emit(call)
        builder.emit_func_output(Tuple() if result.ty == TupleType() else result)
    mod = builder.get()
    infos = {MESHES: (mesh,)} if mesh else DEVICES if name in ON_DEVICES else {}
    return IRModule(mod.functions, mod.attrs, infos)


def _on_mesh(known: Known, mesh: DeviceMesh) -> Known:
    """Of tensors that lie on a mesh, as TVM wants those whose place is said anew."""
    everywhere = Placement(mesh, (None,) * len(mesh.shape))
    return lambda ty: replace(known(ty), placement=everywhere)


def _is_accepted(name: str, index: int, known: str) -> bool:
    """Whether an operator takes arguments of which so little is known."""
    try:
        _module(name, index, known)
    except OpError:
        return False
    return True


CASES = {
    f"{name}-{index}-{known}": (name, index, known)
    for name in sorted(SAMPLES)
    if name in OPS
    for index in range(len(SAMPLES[name]))
    for known in KNOWN
    if not known.endswith(UNKNOWN) or (index == 0 and _is_accepted(name, index, known))
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    given: dict[str, Any] = asked_of_tvm(
        tmp_path_factory.mktemp("tvm"),
        Path(__file__).parents[1] / "support" / "tvm_reader.py",
        lambda: {case: _module(*which).script(show_meta=True) for case, which in CASES.items()},
    )
    return given


@pytest.mark.parametrize("case", CASES)
def test_tvm_reads_it_and_finds_the_same_types(case: str, answers: dict[str, Any]) -> None:
    answer = answers["answers"][case]
    if CASES[case][0] not in answers["operators"]:
        pytest.skip("TVM has no such operator")
    if case.endswith(UNKNOWN) and "error" in answer:
        pytest.skip("TVM refuses arguments of which so little is known")
    if answer.get("error") == CRASHED and _holds_arrays(_module(*CASES[case])):
        pytest.skip("TVM with tvm-ffi 0.1.15 crashes where it prints arrays beside a module")
    if case.startswith(tuple(DIFFERENT)):
        with pytest.raises((AssertionError, ScriptError)):
            _compare(case, answer)
    else:
        _compare(case, answer)


def _holds_arrays(mod: IRModule) -> bool:
    nodes = (node for f in mod.relax_functions().values() for node in post_order(f))
    return any(isinstance(node, Constant) and node.data.ndim > 0 for node in nodes)


def _compare(case: str, answer: dict[str, Any]) -> None:
    assert "error" not in answer, answer["error"]
    printed = parse_module(answer["printed"])
    ours = _module(*CASES[case])
    # TVM describes devices in more words.
    assert_structural_equal(IRModule(printed.functions), IRModule(ours.functions))
