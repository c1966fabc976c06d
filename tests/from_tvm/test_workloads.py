"""Workloads on the builder that is open: layers of modules, and checkpoints."""

from typing import Any

import numpy as np
import pytest

from relaxjax.tvm import relax
from relaxjax.tvm.relax.testing import nn


def test_layers_are_built_and_run() -> None:
    builder = relax.BlockBuilder()
    with builder.function("main"):
        last = nn.Linear(3, 2, bias=False)
        model = nn.Sequential(nn.Linear(4, 3), nn.ReLU(), last, nn.LogSoftmax())
        data = nn.Placeholder((5, 4), name="data")
        out = model(data)
        builder.emit_func_output(out, [data, *model.parameters()])
    mod = builder.get()
    main: Any = mod["main"]
    names = ["data", "linear_weight1", "linear_bias", "linear_weight"]
    assert [param.name for param in main.params] == names
    params = nn.init_params(mod)
    assert [param.shape for param in params] == [(4, 3), (3,), (3, 2)]
    vm = relax.VirtualMachine(relax.build(mod, "llvm"))
    result = vm["main"](np.ones((5, 4), "float32"), *params)
    np.testing.assert_allclose(result.numpy(), np.log(0.5), rtol=1e-6)


def test_names_are_apart_only_where_a_builder_is_open() -> None:
    assert [nn.Parameter((2,)).name for _ in range(2)] == ["param", "param"]
    with pytest.raises(TypeError, match="the shape is a list or a tuple, found 2"):
        nn.Parameter(2)  # type: ignore[arg-type]


def test_a_module_says_what_it_computes() -> None:
    class Nothing(nn.Module):
        pass

    with pytest.raises(NotImplementedError, match="Nothing must define `forward`"):
        Nothing()(relax.const(1.0))


def test_parameters_of_unknown_shape_are_not_made() -> None:
    builder = relax.BlockBuilder()
    w = relax.Var("w", relax.TensorType(None, "float32", 2))
    with builder.function("main", [w]):
        builder.emit_func_output(w)
    with pytest.raises(TypeError, match=r"`w` is of type R.Tensor\(.*, whose shape is not known"):
        nn.init_params(builder.get())


def test_checkpoints_as_expressions() -> None:
    x = relax.Var("x", relax.TensorType((2,), "float32"))
    one = nn.checkpoint(lambda a, by: relax.op.multiply(a, by), x, by=x)
    start = "R.grad.start_checkpoint(x)"
    assert str(one) == f"R.grad.end_checkpoint(R.multiply({start}, {start}))"
    two = nn.checkpoint(lambda a, count: [a, count], x, 3)
    assert (str(two[0]), two[1]) == (f"R.grad.end_checkpoint({start})", 3)
    with pytest.raises(TypeError, match="must give an expression, or several, but it gives 1"):
        nn.checkpoint(lambda: 1)
