"""Our ConvertLayout, CombineParallelMatmul and ToMixedPrecision against those of TVM itself.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names. Both
start from TVM's own print of a program.

Ours goes further in places that have tests of their own: TVM transposes a tensor for each of its
readers, and goes back before a padding and before a bias of fewer axes; and it rounds to float16
what it reads in float32 again.
"""

import pytest
from asking_tvm import changed_by_tvm, check_changed

IMAGE = 'x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")'
IMAGE += ', v: R.Tensor((4, 4, 3, 3), "float32"), c: R.Tensor((1, 4, 1, 1), "float32")'
IMAGE += ', n: R.Tensor((6, 6), "float32")'
DENSE = 'x: R.Tensor((4, 8), "float32"), w: R.Tensor((8, 3), "float32")'
DENSE += ', v: R.Tensor((8, 5), "float32"), b: R.Tensor((3,), "float32")'
DENSE += ', d: R.Tensor((5,), "float32")'
LAYOUTS = 'ConvertLayout({"relax.nn.conv2d": ["NHWC", "OHWI"]})'
BODIES: dict[str, dict[str, str]] = {
    LAYOUTS: {
        "a convolution": "gv = R.nn.conv2d(x, w)",
        "an activation": "y = R.nn.conv2d(x, w)\ngv = R.nn.gelu(y)",
        "before and behind": "a = R.nn.relu(x)\ny = R.nn.conv2d(a, w)\ngv = R.nn.relu(y)",
        "two": "y = R.nn.conv2d(x, w)\na = R.nn.relu(y)\ngv = R.nn.conv2d(a, v)",
        "a bias": "y = R.nn.conv2d(x, w)\ngv = R.add(y, c)",
        "a scalar": 'y = R.nn.conv2d(x, w)\ngv = R.multiply(y, R.const(2, "float32"))',
        "a mean": "y = R.nn.conv2d(x, w)\ngv = R.mean(y, axis=[2, 3])",
        "a sum": "y = R.nn.conv2d(x, w)\ngv = R.sum(y, axis=[1], keepdims=True)",
        "flattening": "y = R.nn.conv2d(x, w)\ngv = R.reshape(y, R.shape([2, 144]))",
        "pooling": "y = R.nn.conv2d(x, w)\ngv = R.nn.avg_pool2d(y, pool_size=[2, 2])",
        "softmax": "y = R.nn.conv2d(x, w)\ngv = R.nn.softmax(y, axis=1)",
        "new axes": "y = R.nn.conv2d(x, w)\ngv = R.expand_dims(y, axis=[-3, 1])",
        "a norm": "y = R.nn.conv2d(x, w)\ngv = R.nn.layer_norm(y, n, n, axes=[-2, -1])",
        "a slice": "y = R.nn.conv2d(x, w)\ngv = R.strided_slice(y, (1, 2), (0, 1), (2, 3))",
        "concat": "y = R.nn.conv2d(x, w)\na = R.nn.relu(y)\ngv = R.concat((y, a), axis=1)",
        "split": "y = R.nn.conv2d(x, w)\ns = R.split(y, 2, axis=1)\na = s[0]\ne = s[1]\n"
        "gv = R.add(a, e)",
        "nothing to do": "gv = R.nn.max_pool2d(x, pool_size=[2, 2])",
    },
    "CombineParallelMatmul()": {
        "two": "a = R.matmul(x, w)\ne = R.matmul(x, v)\ngv = (a, e)",
        "biases": "a = R.matmul(x, w)\ne = R.matmul(x, v)\nf = R.add(a, b)\ng = R.add(e, d)\n"
        "h = R.nn.gelu(f)\ni = R.nn.gelu(g)\ngv = (h, i)",
        "other activations": "a = R.matmul(x, w)\ne = R.matmul(x, v)\nf = R.add(a, b)\n"
        "g = R.add(e, d)\nh = R.nn.gelu(f)\ni = R.nn.relu(g)\ngv = (h, i)",
        "a bias in one only": "a = R.matmul(x, w)\ne = R.matmul(x, v)\nf = R.add(a, b)\n"
        "gv = (f, e)",
        "one": "a = R.matmul(x, w)\ngv = R.add(a, b)",
    },
    "ToMixedPrecision()": {
        "a convolution": "gv = R.nn.conv2d(x, w)",
        "an activation": "y = R.nn.conv2d(x, w)\ngv = R.nn.relu(y)",
        "before and behind": "a = R.nn.relu(x)\ny = R.nn.conv2d(a, w)\ngv = R.nn.relu(y)",
        "two": "y = R.nn.conv2d(x, w)\na = R.nn.relu(y)\ngv = R.nn.conv2d(a, v)",
        "nothing to do": "gv = R.nn.softmax(x)",
    },
}
CASES = {
    f"{change}: {name}": (change, body)
    for change, bodies in BODIES.items()
    for name, body in bodies.items()
}


def source(change: str, body: str) -> str:
    params = DENSE if change == "CombineParallelMatmul()" else IMAGE
    lines = "".join(f"            {line}\n" for line in body.splitlines())
    return (
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({params}):\n"
        f"        with R.dataflow():\n{lines}            R.output(gv)\n        return gv\n"
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return changed_by_tvm(
        tmp_path_factory.mktemp("tvm"),
        lambda: {name: (source(*case), case[0]) for name, case in CASES.items()},
    )


@pytest.mark.parametrize("name", CASES)
def test_as_tvm_does(answers: dict[str, list[str]], name: str) -> None:
    check_changed(CASES[name][0], answers[name])
