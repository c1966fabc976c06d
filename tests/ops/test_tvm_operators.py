"""Every operator printed, read by TVM, typed by TVM as by us, and its print read back.

TVM is asked once, in a process of its own, by the interpreter that the environment variable
`RELAXJAX_TVM_PYTHON` names. Without it these tests are skipped.
"""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from operator_evaluation import call_of
from operator_sample_table import SAMPLES

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir.builder import BlockBuilder
from relaxjax.ir.expr import Tuple
from relaxjax.ir.module import IRModule
from relaxjax.ir.registry import OPS, get_op
from relaxjax.ir.structural import assert_structural_equal
from relaxjax.ir.types import TupleType
from relaxjax.ir.walk import expr_symbols, type_symbols
from relaxjax.script import from_source

PYTHON = os.environ.get("RELAXJAX_TVM_PYTHON")
# Where TVM differs and we mean to: each with what it does.
DIFFERENT = {
    "relax.meshgrid-1": 'forgets in the type that indexing="xy" swaps the first two axes',
    "relax.nn.attention_var_len-0": "prints the arguments in another order than it reads them",
    "relax.nn.attention_var_len-1": "prints the arguments in another order than it reads them",
    "relax.nn.attention_var_len-2": "prints the arguments in another order than it reads them",
    "relax.index_put-2": "wants as many tensors of indices as the data has dimensions",
    "relax.reshape-4": "reads the 0 of a tensor without elements as `copy the dimension`",
    "relax.shape_of-1": "forgets the shape of a scalar",
    "relax.strided_slice-4": "gives a slice whose end is before its begin a negative length",
}


def _module(name: str, index: int, symbolic: bool) -> IRModule:
    """A module that makes one call; a symbol that no parameter defines is left at its value."""
    call, arrays = call_of(get_op(name), SAMPLES[name][index], symbolic)
    defined = {symbol for var in arrays for symbol in type_symbols(var.ty)}
    if not defined.issuperset(expr_symbols(call)):
        call, arrays = call_of(get_op(name), SAMPLES[name][index])
    builder = BlockBuilder()
    with builder.function("main", list(arrays), pure=get_op(name).pure):
        result = builder.emit(call)
        builder.emit_func_output(Tuple() if result.ty == TupleType() else result)
    return builder.get()


CASES = {
    f"{name}-{index}{'-symbolic' if symbolic else ''}": (name, index, symbolic)
    for name in sorted(SAMPLES)
    if name in OPS
    for index in range(len(SAMPLES[name]))
    for symbolic in (False, True)
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    if not PYTHON:
        pytest.skip("RELAXJAX_TVM_PYTHON names no interpreter that has TVM")
    folder = tmp_path_factory.mktemp("tvm")
    texts = {case: _module(*which).script(show_meta=True) for case, which in CASES.items()}
    (folder / "questions.json").write_text(json.dumps(texts))
    peer = Path(__file__).parents[1] / "tvm_reader.py"
    command = [PYTHON, str(peer), str(folder / "questions.json"), str(folder / "answers.json")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    given: dict[str, Any] = json.loads((folder / "answers.json").read_text())
    return given


@pytest.mark.parametrize("case", CASES)
def test_tvm_reads_it_and_finds_the_same_types(case: str, answers: dict[str, Any]) -> None:
    answer = answers[case]
    if answer.get("unknown"):
        pytest.skip("TVM has no such operator")
    if case.removesuffix("-symbolic") in DIFFERENT:
        with pytest.raises(AssertionError):
            _compare(case, answer)
    else:
        _compare(case, answer)


def _compare(case: str, answer: dict[str, Any]) -> None:
    assert "error" not in answer, answer["error"]
    assert_structural_equal(from_source(answer["printed"]), _module(*CASES[case]))
