"""What operators cost: a rule for each, the same counts as XLA's, and functions added up."""

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from jax import lax
from operator_evaluation import SYMBOLS, call_of
from operator_sample_table import SAMPLES
from parsing import parse_functions, parse_main
from refusals import t as x

import relaxjax.ops  # noqa: F401  # fills the table of operators
from relaxjax.ir import Call, Function, IRModule, SymbolicVar, TensorType, TupleType, Var
from relaxjax.ir.builder import make_function
from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.op import OPS, Op, get_op
from relaxjax.lowering import build
from relaxjax.ops.cost import Cost, cost_of, function_cost
from relaxjax.ops.cost_rules import SORTS, TRANSCENDENTAL_FLOPS
from relaxjax.ops.declare import FUSION, PRECISION
from relaxjax.ops.emit import call
from relaxjax.ops.jax_functions import call_jax
from relaxjax.ops.lowered_cost import LOWERED
from relaxjax.passes import LegalizeOps

pytestmark = pytest.mark.usefixtures("in_64_bits")

# What their results are is known only when they run.
UNKNOWN = {"relax.dynamic_strided_slice", "relax.unique", "relax.nonzero"}
CASES = [
    (name, index)
    for name in sorted(SAMPLES)
    for index in range(len(SAMPLES[name]))
    if index == 0 or get_op(name).cost is not LOWERED  # which takes time to trace
]


def test_every_operator_says_what_it_costs() -> None:
    table = {name: op for name, op in OPS.items() if name.startswith(("relax.", "lax."))}
    assert [name for name, op in table.items() if op.cost is None] == []


def test_every_operator_says_how_it_fuses_and_what_precision_it_needs() -> None:
    table = {name: op for name, op in OPS.items() if name.startswith("relax.")}
    assert [name for name, op in table.items() if op.fusion not in FUSION] == []
    assert [name for name, op in table.items() if op.precision not in PRECISION] == []


@pytest.mark.parametrize(("name", "index"), CASES)
def test_the_cost_is_known_and_symbolic_shapes_have_the_same(name: str, index: int) -> None:
    """Where the lowering tells, a program for symbolic shapes may be another one."""
    op = get_op(name)
    static = cost_of(call_of(op, SAMPLES[name][index])[0])
    symbolic = cost_of(call_of(op, SAMPLES[name][index], symbolic=True)[0])
    assert (static is None) == (name in UNKNOWN)
    if static is None:
        return
    assert isinstance(static.flops, int)
    assert isinstance(static.bytes, int)
    assert min(static.flops, static.bytes) >= 0
    if symbolic is None:
        assert op.cost is LOWERED
        return
    values = {symbol: length for length, symbol in SYMBOLS.items()}
    assert substitute_dim(symbolic.bytes, values) == static.bytes
    if op.cost not in (LOWERED, SORTS):
        assert substitute_dim(symbolic.flops, values) == static.flops


# The call, what XLA counts in the same program, and how far its count may be from ours: what it
# makes of a convolution, or of a division by a constant, differs by platform and release.
COUNTED: dict[str, tuple[Call, float]] = {
    "matrices": (call("matmul", x(32, 64), x(64, 16)), 0),
    "stacks of matrices": (call("matmul", x(4, 32, 64), x(4, 64, 16)), 0),
    "a vector": (call("matmul", x(64), x(64, 16)), 0),
    "padded convolution": (call("nn.conv2d", x(2, 8, 14, 14), x(16, 8, 3, 3), padding=1), 0),
    "strided convolution": (call("nn.conv2d", x(2, 8, 14, 14), x(16, 8, 3, 3), strides=2), 0),
    "convolution of 1 x 1": (call("nn.conv2d", x(2, 8, 9, 9), x(16, 8, 1, 1)), 0),
    "grouped convolution": (call("nn.conv2d", x(2, 8, 14, 14), x(16, 2, 3, 3), groups=4), 0),
    "elementwise": (call("add", x(100, 100), x(100, 100)), 0),
    "fused multiplication": (call("ewise_fma", x(100), x(100), x(100)), 0),
    "rectifier": (call("nn.relu", x(100, 100)), 0),
    "sum": (call("sum", x(100, 100), axis=[1]), 0.02),
    "softmax": (call("nn.softmax", x(100, 100)), 0.05),
    "attention": (call("nn.attention", x(2, 16, 4, 32), x(2, 16, 4, 32), x(2, 16, 4, 32)), 0.05),
}


@pytest.mark.parametrize("title", COUNTED)
def test_xla_counts_the_same(title: str) -> None:
    """A function such as exp is one of its transcendentals, and so many of our flops."""
    made, tolerance = COUNTED[title]
    types = [arg.ty for arg in made.args if isinstance(arg.ty, TensorType)]
    args = [jnp.zeros(ty.dims or (), ty.dtype) for ty in types]

    def run(*given: Any) -> Any:
        assert isinstance(made.op, Op)
        assert made.op.lower is not None
        return made.op.lower(*given, **made.attrs)

    with jax.enable_x64(False):
        analysis = jax.jit(run).lower(*args).compile().cost_analysis() or {}
    counted = analysis.get("flops", 0.0)
    counted += analysis.get("transcendentals", 0.0) * TRANSCENDENTAL_FLOPS
    cost = cost_of(made)
    assert cost is not None
    assert counted == pytest.approx(cost.flops, rel=tolerance)


PRIMITIVES: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "dot": (lambda a, b: lax.dot(a, b), ((3, 4), (4, 5)), 2 * 3 * 4 * 5),
    "power": (lambda a: lax.integer_pow(a, 5), ((10,),), 30),
    "windows": (
        lambda a: lax.reduce_window(a, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
        ((5, 5),),
        4 * 4 * 4,
    ),
    "spread convolution": (
        lambda a, b: lax.conv_transpose(
            a, b, (2,), "VALID", dimension_numbers=("NWC", "WIO", "NWC")
        ),
        ((1, 4, 3), (2, 3, 5)),
        2 * 4 * 2 * 3 * 5,
    ),
    "scattered sum": (lambda a: a.at[jnp.array([0, 2])].add(1.0), ((5,),), 2 + 2 * 3),
    "matrix factors": (
        lambda a: lax.linalg.cholesky(a, symmetrize_input=False),
        ((6, 6),),
        6**3 // 3 + 3 * 36,  # the other triangle is masked out
    ),
    "solution": (
        lambda a, b: lax.linalg.triangular_solve(a, b, left_side=True),
        ((4, 4), (4, 3)),
        4 * 4 * 3,
    ),
    "transform": (jnp.fft.fft, ((8,),), 8 * 5 * 3),
    "loop": (
        lambda a: lax.scan(lambda c, _: (c * a, None), a, None, length=7)[0],
        ((10,),),
        7 * 10,
    ),
    "branches": (
        lambda a: lax.cond(a[0] > 0, lambda v: v + v, lambda v: jnp.exp(v), a),
        ((10,),),
        TRANSCENDENTAL_FLOPS * 10,
    ),
}


@pytest.mark.parametrize("title", PRIMITIVES)
def test_primitives_are_counted(title: str) -> None:
    """Of what is traced with it, a few operations on places or single numbers are left aside."""
    function, shapes, expected = PRIMITIVES[title]
    seq = call_jax(function, *(x(*shape) for shape in shapes))
    cost = function_cost(make_function([], seq))
    assert cost is not None
    assert cost.flops == pytest.approx(expected, abs=25)
    assert isinstance(cost.flops, int)
    assert cost.flops >= expected


def test_symbolic_sizes_stay_in_the_count() -> None:
    n = SymbolicVar("n")
    assert cost_of(call("matmul", x(n, 64), x(64, 16))) == Cost(n * 2048, n * 320 + 4096)


def test_the_dtype_counts_in_bytes() -> None:
    for dtype, width in {"bfloat16": 2, "int8": 1, "bool": 1, "key<fry>": 8}.items():
        assert cost_of(call("flip", x(10, dtype=dtype), 0)) == Cost(0, 20 * width)


@pytest.mark.parametrize(
    "ty", [TensorType(None, "float32"), TensorType((2,), None), TensorType(None, "float32", 2)]
)
def test_what_has_no_known_size_has_no_known_cost(ty: TensorType) -> None:
    assert cost_of(call("exp", Var("x", ty))) is None


PROGRAM = """
@R.function
def main(x: R.Tensor((8, 4), "float32"), go: R.Tensor((), "bool")):
    y = Module.twice(x)
    if go:
        z = R.exp(y)
    else:
        z = R.add(y, y)
    return z

@R.function
def twice(x: R.Tensor(("n", 4), "float32")):
    n = T.int64()
    y = R.add(x, x)
    z: R.Tensor((n, 4), "float32") = R.add(y, y)
    return z

@R.function
def looped(x: R.Tensor((4,), "float32"), xs: R.Tensor((9, 4), "float32")):
    @R.function(private=True)
    def step(c: R.Tensor((4,), "float32"), v: R.Tensor((4,), "float32")):
        d = R.add(c, v)
        return (d, d)
    z = R.scan(step, x, xs)
    return z

@R.function
def bounded(x: R.Tensor((4,), "float32")):
    @R.function(private=True)
    def goes_on(c: R.Tensor((4,), "float32")):
        top = R.max(c)
        small = R.less(top, R.const(9.0, "float32"))
        return small
    @R.function(private=True)
    def step(c: R.Tensor((4,), "float32")):
        d = R.add(c, c)
        return d
    z = R.while_loop(goes_on, step, x, max_iter=5)
    return z

@R.function
def endless(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
    y = Module.endless(x)
    return y

@R.function(pure=False)
def outside(x: R.Tensor((4,), "float32")):
    y = R.call_packed("f", x, ty_args=R.Tensor((4,), "float32"))
    return y
"""


def _cost(mod: IRModule, name: str) -> Cost | None:
    function = mod[name]
    assert isinstance(function, Function)
    return function_cost(function, mod)


def test_functions_are_added_up() -> None:
    """Called functions in the dimensions of the call, the dearer branch, the steps of loops."""
    mod = parse_functions(PROGRAM)
    main, twice = _cost(mod, "main"), _cost(mod, "twice")
    assert main is not None
    assert main.flops == 2 * 32 + TRANSCENDENTAL_FLOPS * 32
    assert main.bytes == 2 * 3 * 128 + 3 * 128
    assert twice is not None
    assert str(twice.flops) == "n * 8"
    assert _cost(mod, "looped") == Cost(9 * 4, 9 * 48)
    assert _cost(mod, "bounded") == Cost(5 * (4 + 1 + 4), 5 * (20 + 9 + 48))


def test_what_calls_itself_or_goes_outside_has_no_known_cost() -> None:
    mod = parse_functions(PROGRAM)
    assert _cost(mod, "endless") is None
    assert _cost(mod, "outside") is None
    assert function_cost(mod["main"]) is None  # without its module


def test_a_legalised_program_has_the_flops_of_its_operators() -> None:
    mod = parse_main("y = R.matmul(x, w)\nz = R.nn.relu(y)\nreturn z", x=(8, 4), w=(4, 6))
    before, after = _cost(mod, "main"), _cost(LegalizeOps()(mod), "main")
    assert before is not None
    assert after is not None
    assert before.flops == after.flops == 2 * 8 * 4 * 6 + 8 * 6
    assert "main" in build(mod)


def test_no_results_cost_nothing() -> None:
    assert cost_of(call("null_value")) == Cost()
    assert cost_of(call("print", Var("t", TupleType(())))) == Cost()


def test_a_binding_that_is_no_call() -> None:
    """Of every binding of a function the cost can be asked, as the page on costs does."""
    function = parse_functions("""
@R.function
def main(x: R.Tensor((4,), "float32")):
    parts = R.split(x, 2)
    first = parts[0]
    pair = (first, x)
    return pair
""")["main"]
    costs = [cost_of(binding.value) for binding in function.body.bindings()]
    assert costs[0] is not None
    assert costs[1:] == [Cost(), Cost()]
    wrong: Any
    for wrong in (function, "x"):
        with pytest.raises(TypeError, match=r"^`cost_of` takes a call, .* `function_cost` counts"):
            cost_of(wrong)
