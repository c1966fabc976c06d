"""Training steps written as plain JAX run where there is no relaxjax, and make the same numbers."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from parsing import parse_functions
from small_models import Classifier, trainable
from written_programs import run_alone, same_bits

from relaxjax import IRModule, TensorType, TupleType, build, to_python
from relaxjax.cli.demo import trainable as tutorial
from relaxjax.ir.expr import np_dtype
from relaxjax.losses import CrossEntropyLoss, MSELoss
from relaxjax.optim import SGD, Adam

# Runs the functions of `written.py` on the arrays in `in.npz` and keeps what they give.
RUN = """
import jax
import numpy as np
import written

def nested(structure, arrays):
    if isinstance(structure, list):
        return tuple(nested(item, arrays) for item in structure)
    return arrays[structure]

with np.load("in.npz") as file:
    arrays = dict(file)
results = {}
for name, structure in STRUCTURES.items():
    found = getattr(written, name)(*nested(structure, arrays))
    for index, leaf in enumerate(jax.tree.leaves(found)):
        results[f"{name}/{index}"] = np.asarray(leaf)
np.savez("out.npz", **results)
assert "relaxjax" not in sys.modules
"""


def arguments(ty: Any, random: np.random.Generator) -> Any:
    """Small random arrays of a type."""
    if isinstance(ty, TupleType):
        return tuple(arguments(field, random) for field in ty.fields)
    assert isinstance(ty, TensorType)
    shape = [dim if isinstance(dim, int) else 5 for dim in ty.dims or ()]
    if "int" in str(ty.dtype):
        return random.integers(0, 2, shape).astype(np_dtype(ty.dtype))
    return random.uniform(0, 0.1, shape).astype(np_dtype(ty.dtype))


def keyed(value: Any, arrays: dict[str, Any]) -> Any:
    """The structure of nested tuples, with keys of `arrays` in the places of the arrays."""
    if isinstance(value, tuple | list):
        return [keyed(item, arrays) for item in value]
    arrays[f"a{len(arrays)}"] = value
    return f"a{len(arrays) - 1}"


def leaves(value: Any) -> list[Any]:
    return [x for item in value for x in leaves(item)] if isinstance(value, tuple) else [value]


def check(mod: IRModule, functions: list[str], folder: Path) -> None:
    """Run functions of a module here and, written, elsewhere; every bit must be the same."""
    random = np.random.default_rng(0)
    executable = build(mod)
    arrays: dict[str, Any] = {}
    structures: dict[str, Any] = {}
    expected: dict[str, Any] = {}
    for name in functions:
        args = [arguments(param.ty, random) for param in mod[name].params]
        structures[name] = keyed(args, arrays)
        results = leaves(executable[name](*args))
        expected |= {f"{name}/{index}": leaf for index, leaf in enumerate(results)}
    (folder / "written.py").write_text(to_python(mod))
    np.savez(folder / "in.npz", **arrays)
    run_alone(RUN.replace("STRUCTURES", repr(structures)), folder)
    with np.load(folder / "out.npz") as found:
        assert found.keys() == expected.keys()
        for name, value in expected.items():
            assert same_bits(found[name], value), name


def test_the_adjoint_and_the_optimizer_of_the_tutorial(tmp_path: Path) -> None:
    mod = tutorial(lr=0.1)
    check(mod, ["backbone", "backbone_loss", "backbone_loss_adjoint", "optimizer"], tmp_path)


def test_adam_which_counts_its_steps_in_64_bits(tmp_path: Path) -> None:
    scores, labels = TensorType((8, 3), "float32"), TensorType((8,), "int32")
    mod = trainable(Classifier, CrossEntropyLoss(), Adam(0.01), scores, labels)
    assert "@with_x64\n@jax.jit\ndef optimizer(" in to_python(mod)
    check(mod, ["backbone_loss_adjoint", "optimizer"], tmp_path)


NORMALISED = """
    I.module_attrs({"param_num": 3, "state_num": 2})

    @R.function
    def backbone(
        x: R.Tensor(("n", 3, 6, 6), "float32"),
        w: R.Tensor((4, 3, 3, 3), "float32"),
        gamma: R.Tensor((4,), "float32"),
        beta: R.Tensor((4,), "float32"),
        mean: R.Tensor((4,), "float32"),
        var: R.Tensor((4,), "float32"),
    ) -> R.Tuple(
        R.Tensor(("n", 4, 2, 2), "float32"), R.Tensor((4,), "float32"), R.Tensor((4,), "float32")
    ):
        n = T.int64()
        with R.dataflow():
            lv = R.nn.conv2d(x, w)
            bn = R.nn.batch_norm(lv, gamma, beta, mean, var, axis=1)
            lv1 = bn[0]
            new_mean = bn[1]
            new_var = bn[2]
            lv2 = R.nn.relu(lv1)
            out = R.nn.max_pool2d(lv2, pool_size=[2, 2], strides=[2, 2])
            R.output(out, new_mean, new_var)
        return (out, new_mean, new_var)
"""


@pytest.mark.parametrize("batch", ["5", '"n"'])
def test_a_convolution_with_batch_norm_and_pooling(batch: str, tmp_path: Path) -> None:
    mod = parse_functions(NORMALISED.replace('"n"', batch))
    n = mod["backbone"].params[0].ty.dims[0]
    scores = TensorType((n, 4, 2, 2), "float32")
    step = trainable(mod, MSELoss(), SGD(0.1), scores, scores)
    check(step, ["backbone", "backbone_loss_adjoint", "optimizer"], tmp_path)
