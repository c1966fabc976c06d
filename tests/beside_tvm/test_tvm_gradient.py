"""Our backward programs against those of TVM itself, binding by binding.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names. The
programs are those that it handles rightly: not relu at zero, not power of or to zero, and not its
other errors, for which ours has tests of its own. Extrema, which are compared once here and twice
there, are among the random programs, by their numbers.
"""

import pytest
from asking_tvm import asked_of_tvm
from parsing import parse_module

from relaxjax.ir.structural import assert_structural_equal
from relaxjax.passes.differentiation.gradient import Gradient
from relaxjax.script import from_source

ASK_TVM = """
import json, sys
from tvm import relax
from tvm.script import from_source

programs = json.load(open(sys.argv[1]))
answers = {}
for name, text in programs.items():
    try:
        module = relax.transform.Gradient("main")(from_source(text))
        answers[name] = module["main_adjoint"].script(show_meta=True)
    except Exception as error:
        answers[name] = "error: " + str(error)
json.dump(answers, open(sys.argv[2], "w"))
"""

X = 'x: R.Tensor((2, 3), "float32")'
XY = X + ', y: R.Tensor((2, 3), "float32")'

PROGRAMS = {
    "arithmetic": (XY, "loss = R.sum(R.divide(R.subtract(R.multiply(x, y), x), R.add(y, x)))"),
    "broadcasting": (
        X + ', b: R.Tensor((3,), "float32"), c: R.Tensor((), "float32")',
        "loss = R.sum(R.multiply(R.divide(R.add(x, b), c), b))",
    ),
    "elementary": (
        X,
        (
            "a = R.exp(x)\nb = R.log(a)\nc = R.sqrt(a)\nd = R.tanh(b)\n"
            "e = R.sigmoid(c)\n"
            "f = R.sin(d)\ng = R.cos(e)\nh = R.negative(f)\nloss = R.sum(R.add(h, R.abs(g)))"
        ),
    ),
    "comparison": (XY, "loss = R.sum(R.where(R.less(x, y), x, y))"),
    "reductions": (
        X,
        (
            "a = R.mean(x, axis=1)\nb = R.variance(x, axis=1)\n"
            "c = R.sum(x, axis=1, keepdims=True)\n"
            "d = R.sum(R.multiply(x, c), axis=-1)\nloss = R.sum(R.add(R.multiply(a, b), d))"
        ),
    ),
    "matmul": (
        'x: R.Tensor((2, 3), "float32"), y: R.Tensor((3, 4), "float32")',
        "loss = R.sum(R.matmul(x, y))",
    ),
    "batched matmul": (
        'x: R.Tensor((5, 2, 3), "float32"), y: R.Tensor((3, 4), "float32")',
        "loss = R.sum(R.matmul(x, y))",
    ),
    "shapes": (
        X,
        (
            "a = R.permute_dims(x)\nb = R.reshape(a, (6,))\nc = R.expand_dims(b, 0)\n"
            "d = R.broadcast_to(c, (4, 6))\nloss = R.sum(R.multiply(d, d))"
        ),
    ),
    "concat and split": (
        XY,
        (
            "a = R.concat([x, y], axis=1)\nb = R.split(a, 2, axis=1)\nc = b[0]\nd = b[1]\n"
            "loss = R.sum(R.multiply(c, d))"
        ),
    ),
    "softmax": (XY, "loss = R.sum(R.multiply(R.nn.softmax(x, axis=-1), y))"),
    "cross entropy": (
        X + ', t: R.Tensor((2,), "int64")',
        'loss = R.nn.nll_loss(R.nn.log_softmax(x, axis=-1), t, reduction="mean", ignore_index=-1)',
    ),
    "tuples": (
        XY,
        (
            "c = (x, (y, (x, y)))\nd = c[1]\ne = d[1]\nf = e[0]\ng = c[0]\n"
            "loss = R.sum(R.multiply(R.multiply(f, g), d[0]))"
        ),
    ),
    "take": (X + ', i: R.Tensor((2,), "int64")', "loss = R.sum(R.take(x, i, axis=1))"),
    "unused parameters": (XY, "loss = R.sum(x)"),
    "checkpoint marks": (
        XY,
        (
            "a = R.grad.start_checkpoint(x)\nb = R.grad.start_checkpoint(y)\n"
            "c = R.multiply(R.sin(R.exp(a)), b)\nd = R.grad.end_checkpoint(c)\n"
            "e = R.grad.start_checkpoint(d)\nf = R.cos(R.exp(e))\ng = R.grad.end_checkpoint(f)\n"
            "loss = R.sum(R.tanh(R.multiply(g, y)))"
        ),
    ),
    "silu": (X, "loss = R.sum(R.nn.silu(x))"),
}


def program_text(params: str, body: str) -> str:
    lines = "".join(f"            {line}\n" for line in body.splitlines())
    return (
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main({params}):\n        with R.dataflow():\n{lines}"
        "            R.output(loss)\n        return loss\n"
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What TVM prints for each program."""
    found: dict[str, str] = asked_of_tvm(
        tmp_path_factory.mktemp("tvm"),
        ASK_TVM,
        lambda: {name: program_text(*program) for name, program in PROGRAMS.items()},
    )
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_our_adjoint_is_the_one_that_tvm_writes(name: str, answers: dict[str, str]) -> None:
    module = parse_module(program_text(*PROGRAMS[name]))
    ours = Gradient("main")(module)["main_adjoint"]
    theirs = from_source(answers[name])
    assert_structural_equal(ours, theirs)
