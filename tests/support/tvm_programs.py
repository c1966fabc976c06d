"""Random programs of operators that TVM differentiates rightly, as text that it reads, too."""

from collections.abc import Callable

import numpy as np

PARAMS = {"x": (2, 3), "y": (2, 3), "b": (3,), "w": (3, 3)}

_UNARY = (
    *("R.tanh({0})", "R.sigmoid({0})", "R.sin({0})", "R.cos({0})", "R.negative({0})"),
    *("R.exp(R.tanh({0}))", "R.log(R.exp(R.sin({0})))", "R.sqrt(R.exp(R.sin({0})))"),
    *("R.abs({0})", "R.nn.silu({0})", "R.nn.softmax({0}, axis=1)", "R.nn.log_softmax({0}, axis=0)"),
    "R.reshape(R.reshape({0}, R.shape([3, 2])), R.shape([2, 3]))",
    "R.permute_dims(R.permute_dims({0}, axes=[1, 0]), axes=[1, 0])",
    "R.multiply({0}, R.sum({0}, axis=[1], keepdims=True))",
    "R.subtract({0}, R.mean({0}, axis=[0]))",
    "R.add({0}, R.variance({0}, axis=[1], keepdims=True))",
    "R.matmul({0}, w)",
    "R.multiply({0}, b)",
)
_BINARY = (
    *("R.add({0}, {1})", "R.subtract({0}, {1})", "R.multiply({0}, {1})"),
    *("R.maximum({0}, {1})", "R.minimum({0}, {1})"),
    "R.divide({0}, R.exp(R.sin({1})))",
    "R.where(R.less({0}, {1}), {0}, {1})",
)
# Several lines, of which the last one gives the value.
_SEVERAL = (
    "{2}a = R.concat(({0}, {1}), axis=0)\n{2}b = R.split({2}a, 2, axis=0)\n{2} = {2}b[1]",
    "{2}a = ({0}, ({1}, {0}))\n{2}b = {2}a[1]\n{2} = {2}b[0]",
)


def program(seed: int) -> str:
    """The text of a module whose `main` has a scalar result, for a seed."""
    random = np.random.default_rng(seed)
    values = ["x", "y"]
    lines = []

    def pick(table: tuple[str, ...]) -> str:
        return str(table[random.integers(len(table))])

    makers: tuple[Callable[[], str], ...] = (
        lambda: "{2} = " + pick(_UNARY),
        lambda: "{2} = " + pick(_BINARY),
        lambda: pick(_SEVERAL),
    )
    for index in range(int(random.integers(3, 10))):
        maker = makers[random.choice(3, p=[0.5, 0.35, 0.15])]
        first, second = (values[random.integers(len(values))] for _ in range(2))
        lines += maker().format(first, second, f"v{index}").splitlines()
        values.append(f"v{index}")
    lines.append(f"loss = R.sum(R.multiply({values[-1]}, {values[random.integers(len(values))]}))")
    params = ", ".join(f'{name}: R.Tensor({shape}, "float32")' for name, shape in PARAMS.items())
    body = "".join(f"            {line}\n" for line in lines)
    return (
        "@I.ir_module\nclass Module:\n    @R.function\n"
        f"    def main({params}):\n        with R.dataflow():\n{body}"
        "            R.output(loss)\n        return loss\n"
    )


def arguments(seed: int) -> dict[str, np.ndarray]:
    """Arrays for the parameters, no two elements alike."""
    random = np.random.default_rng(seed)
    return {name: random.normal(size=shape).astype("float32") for name, shape in PARAMS.items()}
