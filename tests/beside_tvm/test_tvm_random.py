"""Random programs against TVM itself: its text, its types, its adjoints and its numbers.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names.
"""

from typing import Any

import numpy as np
import pytest
from asking_tvm import asked_of_tvm
from full import how_many
from parsing import parse_module
from tvm_programs import arguments, program

from relaxjax.ir import Function, IRModule, assert_structural_equal
from relaxjax.lowering import build
from relaxjax.passes import Gradient

SEEDS = range(how_many(30))
# What has another adjoint here, of the same numbers: extrema are compared once, and transpositions
# are cancelled by SimplifyGradient.
WRITTEN_OTHERWISE = ("R.maximum", "R.minimum", "R.permute_dims")

ASK_TVM = """
import json, sys
import numpy as np
import tvm
from tvm import relax
from tvm.script import from_source

def answer(text, args):
    module = from_source(text)
    adjoint = relax.transform.Gradient("main")(module)
    vm = relax.VirtualMachine(tvm.compile(adjoint, "llvm"), tvm.cpu())
    given = [tvm.runtime.tensor(np.array(arg, "float32")) for arg in args]
    loss, gradients = vm["main_adjoint"](*given)
    return {
        "text": module.script(show_meta=True),
        "adjoint": adjoint.script(show_meta=True),
        "loss": loss.numpy().tolist(),
        "gradients": [gradient.numpy().tolist() for gradient in gradients],
    }

questions = json.load(open(sys.argv[1]))
answers = {name: answer(*question) for name, question in questions.items()}
json.dump(answers, open(sys.argv[2], "w"))
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What TVM says of each program."""

    def questions() -> dict[str, Any]:
        return {
            str(seed): (program(seed), [array.tolist() for array in arguments(seed).values()])
            for seed in SEEDS
        }

    found: dict[str, Any] = asked_of_tvm(tmp_path_factory.mktemp("tvm"), ASK_TVM, questions)
    return found


def types(mod: IRModule, name: str) -> list[str]:
    function = mod[name]
    assert isinstance(function, Function)
    return [str(binding.var.ty) for binding in function.body.bindings()]


@pytest.mark.parametrize("seed", SEEDS)
def test_tvm_says_the_same_of_a_program(seed: int, answers: dict[str, Any]) -> None:
    told, ours = answers[str(seed)], parse_module(program(seed))
    theirs = parse_module(told["text"])
    assert_structural_equal(theirs, ours)
    assert types(theirs, "main") == types(ours, "main")

    adjoint, their_adjoint = Gradient("main")(ours), parse_module(told["adjoint"])
    if not any(name in program(seed) for name in WRITTEN_OTHERWISE):
        assert_structural_equal(their_adjoint["main_adjoint"], adjoint["main_adjoint"])
        assert types(their_adjoint, "main_adjoint") == types(adjoint, "main_adjoint")

    loss, gradients = build(adjoint)["main_adjoint"](*arguments(seed).values())
    np.testing.assert_allclose(loss, told["loss"], rtol=1e-4, atol=1e-4)
    for one, other in zip(gradients, told["gradients"], strict=True):
        np.testing.assert_allclose(one, np.array(other), rtol=1e-3, atol=1e-3)
