"""Artifacts of jax.export and StableHLO text: they hold the program, and run without relaxjax."""

import zipfile
from pathlib import Path
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export as jax_export
from jax.extend import mlir
from jax.interpreters.mlir import make_ir_context
from parsing import parse_flow, parse_functions, parse_main
from written_programs import same_bits

from relaxjax import from_jax, value_and_grad
from relaxjax.lowering import LoweringError, build, export, exported_function, to_mlir

X = np.arange(6, dtype="float32").reshape(2, 3)

MOD = parse_functions("""
@R.function(private=True)
def helper(x: R.Tensor(("n", 3), "float32")) -> R.Tensor(("n", 3), "float32"):
    y = R.nn.softmax(x)
    return y

@R.function
def main(x: R.Tensor(("n", 3), "float32"), w: R.Tensor((3, 4), "float32")) -> R.Tensor(("n", 4), "float32"):
    cls = Module
    y = cls.helper(x)
    z = R.matmul(y, w)
    return z

@R.function
def pair(
    x: R.Tuple(R.Tensor(("n",), "float32"), R.Tensor(("n * 2",), "float32")),
) -> R.Tuple(R.Tensor(("n * 3",), "float32"), R.Tuple(R.Tensor(("n",), "float32"))):
    a = x[0]
    b = x[1]
    c = R.concat((a, b))
    return (c, (a,))
""")  # noqa: E501
W = np.ones((3, 4), "float32")


def load(path: Path) -> Any:
    return jax_export.deserialize(bytearray(path.read_bytes()))


def test_one_function_is_one_file(tmp_path: Path) -> None:
    path = tmp_path / "main.jax_export"
    exported = export(MOD, path, "main")
    assert exported.keys() == {"main"}
    assert load(path).platforms == ("cpu", "cuda", "tpu")
    assert [item.name for item in tmp_path.iterdir()] == ["main.jax_export"]


@pytest.mark.parametrize("rows", [1, 2, 7])
def test_symbolic_dimensions_stay_symbolic(rows: int, tmp_path: Path) -> None:
    export(MOD, tmp_path / "main", "main", platforms=["cpu"])
    x = np.random.default_rng(0).normal(size=(rows, 3)).astype("float32")
    loaded = load(tmp_path / "main")
    assert str(loaded.in_avals) == "(ShapedArray(float32[n,3]), ShapedArray(float32[3,4]))"
    chex.assert_trees_all_close(loaded.call(x, W), build(MOD)["main"](x, W), rtol=1e-6)


def test_several_functions_are_an_archive_of_files(tmp_path: Path) -> None:
    path = tmp_path / "module.zip"
    assert export(MOD, path, platforms=["cpu"]).keys() == {"main", "pair"}
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["main.jax_export", "pair.jax_export"]
        pair = jax_export.deserialize(bytearray(archive.read("pair.jax_export")))
    args = ((X[0], np.arange(6, dtype="float32")),)
    assert same_bits(pair.call(*args), build(MOD)["pair"](*args))


def test_equal_modules_give_equal_files(tmp_path: Path) -> None:
    for name in ("a", "b"):
        export(MOD, tmp_path / name, platforms=["cpu"])
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_artifact_does_not_say_where_it_was_made(tmp_path: Path) -> None:
    limit = jax.config.values["jax_traceback_in_locations_limit"]
    export(MOD, tmp_path / "main", "main")
    content = (tmp_path / "main").read_bytes()
    assert b"interpreter.py" not in content
    assert str(Path(__file__).parents[1]).encode() not in content
    assert jax.config.values["jax_traceback_in_locations_limit"] == limit


def test_an_artifact_can_be_differentiated_if_asked_for(tmp_path: Path) -> None:
    export(MOD, tmp_path / "once", "main", platforms=["cpu"], vjp_order=1)
    export(MOD, tmp_path / "never", "main", platforms=["cpu"])
    gradient = jax.grad(lambda w: load(tmp_path / "once").call(X, w).sum())(W)
    expected = jax.grad(lambda w: (jax.nn.softmax(X) @ w).sum())(W)
    chex.assert_trees_all_close(gradient, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="No VJP is available"):
        jax.grad(lambda w: load(tmp_path / "never").call(X, w).sum())(W)


@pytest.mark.parametrize("order", [-1, 13, 1.0, True, "2"])
def test_an_order_that_is_none_or_takes_very_long_is_refused(tmp_path: Path, order: Any) -> None:
    with pytest.raises(ValueError, match="`vjp_order` must be a whole number from 0 to 12, found"):
        export(MOD, tmp_path / "main", "main", vjp_order=order)
    assert not (tmp_path / "main").exists()


POINTWISE = parse_flow("y = R.nn.conv2d(x, w)\nreturn y", x=("n", 2, 5, 5), w=(3, 2, 1, 1))


def test_an_artifact_holds_the_form_of_each_platform() -> None:
    """A kernel of one element is a product of matrices on a CPU, and XLA's elsewhere."""
    form = {"cpu": "stablehlo.dot_general", "cuda": "stablehlo.convolution"}
    for platform, own in form.items():
        texts = (
            exported_function(POINTWISE, "main", [platform]).mlir_module(),
            to_mlir(POINTWISE, target=platform),
        )
        for text in texts:
            assert [name for name in form.values() if name in text] == [own]
    both = exported_function(POINTWISE, "main")
    assert all(name in both.mlir_module() for name in form.values())
    x, w = np.ones((4, 2, 5, 5), "float32"), np.ones((3, 2, 1, 1), "float32")
    for found in (both.call(x, w), jax_export.deserialize(both.serialize()).call(x, w)):
        chex.assert_trees_all_equal(found, np.full((4, 3, 5, 5), 2, "float32"))


def test_names_of_platforms() -> None:
    exported = exported_function(MOD, "main", ["gpu", "llvm", "cuda"])
    assert exported.platforms == ("cuda", "cpu")
    with pytest.raises(ValueError, match=r"there is no target `cuca`: .*; did you mean `cuda`"):
        exported_function(MOD, "main", ["cuca"])
    for wrong in ("cpu", (), 1):
        with pytest.raises(TypeError, match=r"`platforms` must be a list of names, found"):
            exported_function(MOD, "main", wrong)  # type: ignore[arg-type]  # which is tested


@pytest.mark.parametrize(
    ("params", "body", "message"),
    [
        ("x: R.Tensor('float32', ndim=2)", "y = x",
         r"`main`: the parameter `x` is of type R.Tensor.*: give it a shape and a dtype; symbolic"),
        ("x: R.Tensor((2,))", "y = x", "`x` is of type .*: give it a shape and a dtype"),
        ("s: R.Shape([2])", "y = R.zeros(s, 'float32')",
         r"the parameter `s` is of type R.Shape\(\[2\]\): an exported function takes tensors"),
        ("x: R.Tuple(R.Tensor((2,), 'float32'), R.Shape([2]))", "y = x[0]",
         "the parameter `x` is of type .*: an exported function takes tensors, and tuples of them"),
    ],
)  # fmt: skip
def test_parameters_must_be_tensors(params: str, body: str, message: str) -> None:
    mod = parse_functions(f"""
    @R.function
    def main({params}) -> R.Tensor("float32"):
        {body}
        return y
    """)
    with pytest.raises(LoweringError, match=message):
        exported_function(mod, "main")


@jax.custom_vjp
def sine(x: Any) -> Any:
    return jnp.sin(x)


sine.defvjp(lambda x: (jnp.sin(x), x), lambda _, g: (5 * g,))


def test_a_function_with_a_derivative_of_its_own_keeps_it(tmp_path: Path) -> None:
    mod = from_jax(lambda x: jnp.sum(sine(x)), X)
    export(mod, tmp_path / "main", platforms=["cpu"], vjp_order=1)
    loaded = load(tmp_path / "main")
    chex.assert_trees_all_close(loaded.call(X), np.sin(X).sum(), rtol=1e-6)
    chex.assert_trees_all_close(jax.grad(loaded.call)(X), np.full((2, 3), 5, "float32"))
    assert "stablehlo.sine" in to_mlir(mod)


def test_what_asks_python_is_refused() -> None:
    def loss(x: Any) -> Any:
        still = jax.lax.stop_gradient(x)
        return jnp.sum(x * jax.pure_callback(np.sin, jax.typeof(x), still))

    match = "`loss_adjoint` cannot be exported, because `loss_adjoint` calls Python, as by jax.pure"
    with pytest.raises(LoweringError, match=match):
        exported_function(value_and_grad(loss).module(X), "loss_adjoint")


def test_what_is_no_compiled_program_is_refused() -> None:
    mod = parse_main("y = R.shape_of(x)\nreturn y", x=(2,))
    match = r"`main` cannot be exported, because it is not one compiled program: .*: R.Shape\(\[2\]"
    with pytest.raises(LoweringError, match=match):
        exported_function(mod, "main")


def test_effects_are_refused() -> None:
    mod = parse_functions("""
    @R.function(pure=False)
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        R.print(x)
        return x
    """)
    match = "`main` cannot be exported, because `main` is impure: an artifact cannot print or stop"
    with pytest.raises(LoweringError, match=match):
        exported_function(mod, "main")


def test_symbolic_dimensions_that_jax_cannot_decide_about() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor(("n", "m"), "float32")) -> R.Tensor("float32"):
        y = R.topk(x, k=2)
        z = y[0]
        return z
    """)
    with pytest.raises(LoweringError, match=r"`main` cannot be exported: (?s:.*)m"):
        exported_function(mod, "main")


def test_operators_that_need_values_are_refused() -> None:
    mod = parse_functions("""
    @R.function
    def main(x: R.Tensor((4,), "int32")) -> R.Tensor("int32"):
        y = R.unique(x)
        return y
    """)
    with pytest.raises(LoweringError, match="or an operator that needs values"):
        exported_function(mod, "main")


def test_functions_from_outside_are_refused(tmp_path: Path) -> None:
    mod = parse_functions("""
    f = R.ExternFunc("f")

    @R.function
    def main(x: R.Tensor((2,), "float32")) -> R.Tensor((2,), "float32"):
        return x
    """)
    assert exported_function(mod, "main", ["cpu"]).call(X[0, :2]).tolist() == [0, 1]
    with pytest.raises(LoweringError, match="`f` is a function from outside: it has no body"):
        export(mod, tmp_path / "f", "f")


def test_stablehlo_of_static_shapes() -> None:
    mod = parse_main("y = R.matmul(x, w)\nreturn y", x=(2, 3), w=(3, 4))
    text = to_mlir(mod)
    assert text.startswith("module @jit_main")
    assert "loc(" not in text
    assert "func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3x4xf32>)" in text
    assert "stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0]" in text
    with make_ir_context():
        artifact = mlir.serialize_portable_artifact(text, "1.0.0")
        assert "dot_general" in str(mlir.deserialize_portable_artifact(artifact))


def test_stablehlo_of_symbolic_shapes() -> None:
    text = to_mlir(MOD, "main", "tpu")
    assert "tensor<?x3xf32>" in text
    assert "loc(" not in text


def test_stablehlo_is_of_one_function() -> None:
    with pytest.raises(LoweringError, match="has 2 public functions, `main`, `pair`: name one"):
        to_mlir(MOD)
