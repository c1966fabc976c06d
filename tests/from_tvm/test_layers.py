"""Models by the layers of TVM's `relax.frontend.nn`: exported, run, and trained."""

import textwrap
from typing import Any

import chex
import numpy as np
import pytest
from small_models import trainer_of

from relaxjax import ObjectType, Var, VirtualMachine, build
from relaxjax.losses import CrossEntropyLoss
from relaxjax.optim import SGD
from relaxjax.script import relax as R
from relaxjax.tvm import relax
from relaxjax.tvm.relax.frontend import nn
from relaxjax.tvm.relax.frontend.nn import diffusion, op
from relaxjax.tvm.scope import OutOfScopeNameError

X = {"x": nn.spec.Tensor((2, 3), "float32")}


class Perceptron(nn.Module):
    def __init__(self) -> None:
        self.fc1 = nn.Linear(3, 4)
        self.relu = nn.ReLU()
        self.fc2 = nn.Linear(4, 2, bias=False)

    def forward(self, x: nn.Tensor) -> Any:
        return self.fc2(self.relu(self.fc1(x)))

    backbone = forward


def test_a_model_is_exported() -> None:
    mod, params = Perceptron().export_tvm(spec={"forward": X})
    assert [name for name, _ in params] == ["fc1.weight", "fc1.bias", "fc2.weight"]
    text = str(mod["forward"].script(show_all_types=False)).partition("@R.function\n")[2]
    header, _, body = text.partition(":\n")
    assert header.startswith('def forward(x: R.Tensor((2, 3), dtype="float32"), fc1_weight: R.Te')
    assert textwrap.dedent(body) == textwrap.dedent("""\
        R.func_attr({"num_input": 1})
        with R.dataflow():
            permute_dims = R.permute_dims(fc1_weight, axes=None)
            matmul = R.matmul(x, permute_dims, out_dtype=None)
            add = R.add(matmul, fc1_bias)
            relu = R.nn.relu(add)
            permute_dims1 = R.permute_dims(fc2_weight, axes=None)
            matmul1 = R.matmul(relu, permute_dims1, out_dtype=None)
            gv = matmul1
            R.output(gv)
        return gv""")


def test_what_is_exported_runs_however_it_takes_parameters() -> None:
    spec = {"forward": X, "backbone": {**X, "$": {"param_mode": "packed"}}}
    mod, params = Perceptron().export_tvm(spec)
    vm, rng = VirtualMachine(build(mod)), np.random.default_rng(0)
    x = rng.normal(size=(2, 3)).astype("float32")
    w1, b1, w2 = (rng.normal(size=p.shape).astype("float32") for _, p in params)
    expected = np.maximum(x @ w1.T + b1, 0) @ w2.T
    chex.assert_trees_all_close(vm["forward"](x, w1, b1, w2), expected, rtol=1e-5, atol=1e-6)
    chex.assert_trees_all_close(vm["backbone"](x, (w1, b1, w2)), expected, rtol=1e-5, atol=1e-6)


def test_what_is_exported_trains() -> None:
    mod, params = Perceptron().export_tvm({"backbone": X})
    mod = mod.with_attrs({"param_num": len(params), "state_num": 0})
    outputs, labels = R.Tensor((2, 2), "float32"), R.Tensor((2,), "int64")
    trainer = trainer_of(mod, CrossEntropyLoss(), SGD(0.1), outputs, labels)
    trainer.xavier_uniform_init_params(seed=0)
    x = np.array([[1, 2, 3], [3, 2, 1]], "float32")
    losses = [float(trainer.update(x, np.array([0, 1]))) for _ in range(20)]
    assert losses[-1] < 0.8 * losses[0]


def test_sizes_are_symbols_of_their_function() -> None:
    class Model(nn.Module):
        def forward(self, x: nn.Tensor, y: nn.Tensor, n: Any) -> Any:
            return x + y, op.reshape(x, (n, 3))

    size = nn.spec.Tensor(("m", 3), "float32")
    mod, _ = Model().export_tvm({"forward": {"x": size, "y": size, "n": int}})
    x, y, n = mod["forward"].params
    assert x.ty.dims == y.ty.dims
    assert mod["forward"].ret_ty.fields[1].dims == (n.ty.values[0], 3)


def test_arguments_may_be_nested() -> None:
    class Model(nn.Module):
        def forward(self, pair: Any) -> Any:
            return [pair[0] * 2, (pair[1],)]

    mod, _ = Model().export_tvm({"forward": {"pair": [X["x"], X["x"]]}})
    ones = np.ones((2, 3), "float32")
    twice, (same,) = VirtualMachine(build(mod))["forward"]((ones, ones))
    chex.assert_trees_all_equal((np.asarray(twice), np.asarray(same)), (2 * ones, ones))


def test_a_sequence_of_ids_is_looked_up_as_a_table_is() -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            self.table = nn.Embedding(5, 2)

        def forward(self, x: nn.Tensor) -> Any:
            return self.table(x)

    mod, _ = Model().export_tvm({"forward": {"x": nn.spec.Tensor((2, 3), "int32")}})
    table, ids = np.arange(10, dtype="float32").reshape(5, 2), np.array([[0, 1, 2], [4, 3, 0]])
    found = VirtualMachine(build(mod))["forward"](ids.astype("int32"), table)
    chex.assert_trees_all_equal(np.asarray(found), table[ids])


class Nested(nn.Module):
    def __init__(self) -> None:
        self.layers = nn.ModuleList([nn.Linear(2, 2, bias=False)])
        self.layers.append(nn.Linear(2, 3, bias=False))
        self.named = nn.ModuleDict({"head": nn.Linear(3, 1, bias=False)})
        self.scales = nn.ParameterList([nn.Parameter((2,))])
        self.shifts = nn.ParameterDict({"first": nn.Parameter((3,), "float16")})


def test_parameters_are_found_wherever_they_are() -> None:
    model = Nested()
    assert list(model.state_dict()) == [
        *("layers.0.weight", "layers.1.weight", "named.head.weight"),
        *("scales.0", "shifts.first"),
    ]
    assert [parameter.shape for parameter in model.parameters()][:2] == [[2, 2], [3, 2]]
    assert (len(model.layers), str(model.shifts["first"])) == (2, 'Tensor([3], "float16")')


def test_all_parameters_become_another_dtype() -> None:
    model = Nested()
    model.to("float16")
    assert {parameter.dtype for parameter in model.parameters()} == {"float16"}
    layer = nn.Linear(2, 2, out_dtype="float32")
    layer.to("float16")
    assert layer.bias is not None
    assert (layer.weight.dtype, layer.bias.dtype) == ("float16", "float32")


def test_weights_go_from_model_to_model() -> None:
    one, other = Perceptron(), Perceptron()
    for parameter in one.parameters():
        parameter.data = np.ones(parameter.shape, "float32")
    assert other.load_state_dict(one.state_dict()) == ([], [])
    held = other.fc1.weight.data
    assert held is not None
    chex.assert_trees_all_equal(held.numpy(), np.ones((4, 3), "float32"))
    del other.fc2
    assert other.load_state_dict(one.state_dict(), strict=False) == ([], ["fc2.weight"])
    with pytest.raises(KeyError, match=r"of Perceptron are others: missing none; unknown fc2.wei"):
        other.load_state_dict(one.state_dict())


def test_the_default_dtype_is_that_of_parameters() -> None:
    assert nn.get_default_dtype() == "float32"
    nn.set_default_dtype("float64")
    try:
        assert nn.Parameter((2,)).dtype == "float64"
    finally:
        nn.set_default_dtype("float32")


def test_parts_are_replaced() -> None:
    class Halved(nn.Mutator):
        def visit_module(self, name: str, node: nn.Module) -> Any:
            return (
                nn.Linear(2, 1) if isinstance(node, nn.Linear) else super().visit_module(name, node)
            )

        def visit_param(self, name: str, node: nn.Parameter) -> Any:
            return nn.Parameter((1,)) if name == "scales.0" else node

    model = Halved().visit("", Nested())
    shapes = {name: parameter.shape for name, parameter in model.named_parameters()}
    assert shapes["layers.1.weight"] == shapes["named.head.weight"] == [1, 2]
    assert (shapes["scales.0"], shapes["shifts.first"]) == ([1], [3])
    assert nn.Mutator().visit("", Nested()).state_dict().keys() == Nested().state_dict().keys()


class Returning(nn.Module):
    def forward(self, x: nn.Tensor) -> Any:
        return {"x": x}


@pytest.mark.parametrize(
    ("spec", "error", "message"),
    [
        ({"backward": X}, AttributeError, "Returning has no method `backward` to export"),
        ({"forward": {}}, ValueError, "`forward` takes x, but the specification is of nothing"),
        (
            {"forward": {"x": (2, 3)}},
            TypeError,
            r"`x` of `forward` is given as spec.Tensor\(shape, dtype\), int, or a tuple of them, f",
        ),
        (
            {"forward": {**X, "$": {"param_mode": "tupled"}}},
            ValueError,
            "one of plain, packed, none, but found param_mode='tupled'",
        ),
        ({"forward": X}, TypeError, "returns Tensors, or tuples and lists of them, but found {'x'"),
    ],
)
def test_specifications_that_do_not_fit(spec: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        Returning().export_tvm(spec)


def test_effects_have_no_place() -> None:
    with pytest.raises(OutOfScopeNameError, match=r"export_tvm\(debug=True\)` passes effects"):
        Perceptron().export_tvm({"forward": X}, debug=True)


def test_foreign_code_has_no_place() -> None:
    with pytest.raises(OutOfScopeNameError, match=r"allow_extern=True\)` gives modules of foreign"):
        Perceptron().export_tvm({"forward": X}, allow_extern=True)


def test_there_are_no_tensors_of_pytorch_to_be_run_on() -> None:
    with pytest.raises(OutOfScopeNameError, match=r"`Module\.jit` gives a module that takes tenso"):
        Perceptron().jit({"forward": X})


def test_what_runs_instead_of_a_module_of_pytorch() -> None:
    linear = nn.Linear(2, 3)
    random = np.random.default_rng(0)
    weight, bias = (random.normal(size=size).astype("float32") for size in ((3, 2), (3,)))
    for parameter, array in zip(linear.parameters(), (weight, bias), strict=True):
        parameter.data = array
    mod, params = linear.export_tvm({"forward": {"x": nn.spec.Tensor((1, 2), "float32")}})
    run = relax.VirtualMachine(relax.build(mod))["forward"]
    found = run(np.ones((1, 2), "float32"), *[param.data for _, param in params])
    np.testing.assert_allclose(found, np.ones((1, 2)) @ weight.T + bias, rtol=1e-6)


def test_values_that_do_not_fit() -> None:
    x = nn.Tensor.placeholder((2, "n"), "float32", "x")
    with pytest.raises(TypeError, match="a tensor goes with tensors and numbers, found 'a'"):
        _ = x + "a"
    with pytest.raises(TypeError, match=r"a Tensor is of a tensor, but `e` is of type R.(Any|Obj)"):
        nn.Tensor(_expr=Var("e", ObjectType()))
    with pytest.raises(ValueError, match=r"the shape of `x` is not known: its type is R.Tensor"):
        _ = nn.Tensor.from_ty(R.Tensor("float32", ndim=2), "x").shape
    with pytest.raises(NotImplementedError, match="Module must define `forward`"):
        nn.Module()(x)


def test_arrays_that_do_not_fit_a_parameter() -> None:
    parameter = nn.Parameter((2,))
    with pytest.raises(ValueError, match=r"shape \[2\] and dtype float32 was given .* \[3\] and"):
        parameter.data = np.ones(3, "float32")
    parameter.data = np.ones(2, "float32")
    with pytest.raises(ValueError, match="holds an array of dtype float32 cannot become float16"):
        parameter.to("float16")
    parameter.data = None
    parameter.to("float16")
    assert parameter.dtype == "float16"


def test_options_that_layers_have_not() -> None:
    x = nn.Tensor.placeholder((2, 3), "float32", "x")
    with pytest.raises(ValueError, match="the mode of `interpolate` is one of nearest, bilinear"):
        op.interpolate(x, 4, mode="area")
    with pytest.raises(NotImplementedError, match="takes no recompute_scale_factor and no anti"):
        op.interpolate(x, 4, antialias=True)
    with pytest.raises(ValueError, match="there is no activation 'mish': there are silu, swish"):
        diffusion.TimestepEmbedding(2, 4, act_fn="mish")
    with pytest.raises(ValueError, match="takes a condition where it has cond_proj_dim"):
        diffusion.TimestepEmbedding(2, 4)(x, x)
