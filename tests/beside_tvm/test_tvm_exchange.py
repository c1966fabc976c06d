"""Text is the bridge to TVM: it reads what we print, and we read what it prints.

TVM is asked once, for all cases, in a process of its own: by the interpreter that the environment
variable `RELAXJAX_TVM_PYTHON` names. Without it these tests are skipped.
"""

from dataclasses import dataclass
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from asking_tvm import asked_of_tvm
from parsing import parse_module

from relaxjax.ir import IRModule, assert_structural_equal
from relaxjax.ir.op import OPS
from relaxjax.passes import Gradient

MATRIX = 'R.Tensor((2, 3), dtype="float32")'
ROWS = 'R.Tensor(("n", 3), dtype="float32")'


def module(
    body: str, params: str = f"x: {MATRIX}", ret: str | None = MATRIX, options: str = ""
) -> str:
    """The text of a module with one function."""
    head = f"@R.function{options}\ndef main({params}){f' -> {ret}' if ret else ''}:\n"
    return "@I.ir_module\nclass Module:\n" + indent(head + indent(body.strip(), "    "), "    ")


CASES = {
    "an empty module": "@I.ir_module\nclass Module:\n    pass",
    "a perceptron": """
@I.ir_module
class Module:
    I.module_attrs({"param_num": 4, "state_num": 0})

    @R.function
    def main(
        x: R.Tensor((4, 8), "float32"),
        w0: R.Tensor((8, 16), "float32"),
        b0: R.Tensor((16,), "float32"),
        w1: R.Tensor((16, 3), "float32"),
        b1: R.Tensor((3,), "float32"),
        y: R.Tensor((4,), "int64"),
    ) -> R.Tensor((), "float32"):
        R.func_attr({"num_input": 1})
        with R.dataflow():
            lv0 = R.matmul(x, w0)
            lv1 = R.add(lv0, b0)
            lv2 = R.nn.relu(lv1)
            lv3 = R.matmul(lv2, w1)
            lv4 = R.add(lv3, b1)
            lv5 = R.nn.log_softmax(lv4, axis=-1)
            loss = R.nn.nll_loss(lv5, y, reduction="mean", ignore_index=-100)
            R.output(loss)
        return loss
""",
    "symbolic dimensions": module(
        """
n = T.int64()
m = T.int64()
y = R.concat((x, x), axis=0)
z = R.reshape(y, R.shape([2, n, m]))
s = R.shape([T.max(n, m), n // 4, m * 2 + n % 4])
return (y, z, s)
""",
        params='x: R.Tensor(("n", "m"), "float32")',
        ret='R.Tuple(R.Tensor(("n * 2", "m"), "float32"), R.Tensor((2, "n", "m"), "float32"), '
        'R.Shape(["T.max(n, m)", "n // 4", "m * 2 + n % 4"]))',
    ),
    "a new dimension by match_cast": module(
        """
q = T.int64()
y = R.match_cast(x, R.Tensor((q, 3), "float32"))
z = R.add(y, y)
return z
""",
        params='x: R.Tensor("float32", ndim=2)',
        ret='R.Tensor("float32", ndim=2)',
    ),
    "a choice": module(
        """
if c:
    a = R.add(x, x)
    r = R.multiply(a, x)
else:
    if d:
        r = x
    else:
        with R.dataflow():
            b = R.exp(x)
            e = R.exp(b)
            R.output(e)
        r = e
return r
""",
        params=f'x: {MATRIX}, c: R.Tensor((), "bool"), d: R.Tensor((), "bool")',
    ),
    "closures": module(
        f"""
n = T.int64()

@R.function
def double(y: R.Tensor((n, 3), "float32")) -> R.Tensor((n, 3), "float32"):
    z = R.add(x, y)
    return z

@R.function
def again(y: {MATRIX}) -> {MATRIX}:
    z = again(y)
    return z

@R.function(pure=False)
def shout(y: {MATRIX}) -> {MATRIX}:
    R.print(y, format="{{}}")
    return y

f = double
a = f(x)
return a
""",
        params=f"x: {ROWS}",
        ret=ROWS,
    ),
    "functions as values": module(
        "y = g(x)\nreturn y",
        params=f"x: {MATRIX}, g: R.Callable(({MATRIX},), {MATRIX}, True), h: R.Callable",
    ),
    "calls within the module": f"""
@I.ir_module
class Module:
    @R.function(private=True)
    def helper(x: {ROWS}, s: R.Shape(["n", "k"])) -> R.Tensor(("k", "n"), "float32"):
        n = T.int64()
        k = T.int64()
        z = R.zeros(R.shape([k, n]), "float32")
        return z

    @R.function
    def zeta(x: {ROWS}) -> R.Tensor((7, "n"), "float32"):
        cls = Module
        n = T.int64()
        y = cls.helper(x, R.shape([n, 7]))
        return y

    @R.function
    def main(x: {MATRIX}) -> R.Tensor((5, 2), "float32"):
        cls = Module
        y = cls.helper(x, R.shape([2, 5]))
        return y
""",
    "tuples": module(
        """
a = (x,)
b = (a, R.tuple(), (x, a[0]))
c = b[2]
d = c[1]
e = R.split(x, [1], axis=1)
f = e[0]
return (d, f, R.shape([2, 3]), a)
""",
        ret=f'R.Tuple({MATRIX}, R.Tensor((2, 1), "float32"), R.Shape([2, 3]), R.Tuple({MATRIX}))',
    ),
    "scalar constants": module(
        """
a = R.const(1.5, "float32")
b = R.const(float("-inf"), "float32")
c = R.const(0.1, "float32")
d = R.const(-3, "int64")
e = R.const(True, "bool")
f = R.const(1.5, "bfloat16")
g = R.const(-0.0, "float16")
h = R.const(float("nan"), "float64")
i = R.const(0.5, "float8_e4m3fn")
return (a, b, c, d, e, f, g, h, i)
""",
        ret=None,
    ),
    "small constants": module(
        """
a = R.const([[1.0, 0.5], [float("inf"), -2.0]], "float32")
b = R.const([1, 2], "int64")
c = R.const([True, False], "bool")
d = R.const([], "float32")
e = R.const([[1.5], [2.5]], "bfloat16")
return (a, b, c, d, e)
""",
        ret=None,
    ),
    "big constants": module(
        f"""
a = R.const({[float(i) / 3 for i in range(40)]}, "float32")
b = R.const({list(range(17))}, "int32")
c = R.const({[[i % 3 == 0 for i in range(9)]] * 2}, "bool")
d = R.const({[0.5] * 20}, "bfloat16")
e = R.const({[0.5] * 20}, "float8_e5m2")
f = R.add(a, a)
return (b, c, d, e, f)
""",
        ret=None,
    ),
    "types": module(
        "return x",
        params="x: R.Object, a: R.Tensor, b: R.Tensor(ndim=2), c: R.Tensor((2, 3)), "
        'd: R.Tensor("int8"), e: R.Shape, f: R.Shape(ndim=2), g: R.Shape([2]), h: R.Tuple(), '
        'i: R.Prim("int64"), j: R.Prim("float32"), k: R.Prim("bool"), l: R.Callable((), R.Object), '
        'm: R.Tuple(R.Tensor((), "bool"), R.Tuple(R.Object)), '
        'n: R.Callable((R.Tensor(("dim", 2), "float32"),), R.Tensor(("dim",), "float32"), False)',
        ret=None,
    ),
    "values of the host": module(
        """
n = T.int64()
a = R.clip(x, R.prim_value(0.0), R.prim_value(1.0))
b = R.str("quoted \\" and \\\\")
c = R.dtype("float16")
return (a, b, c, R.prim_value(n * 2), R.prim_value(3), R.prim_value(0.5))
""",
        params=f"x: {ROWS}",
        ret=None,
    ),
    "attributes": module("""
R.func_attr({"a": 1, "b": True, "c": "text", "d": [1, [2]], "e": 1.5, "g": {"k": {"l": 1}}})
return x
"""),
    "attributes of the module": f"""
@I.ir_module
class Module:
    I.module_attrs({{"a": R.const(1.0, "float32"), "b": [R.const(1, "int64")], "c": {{"d": "e"}}}})

    @R.function(private=True)
    def main(x: {MATRIX}) -> {MATRIX}:
        return x
""",
    "effects": module(
        """
R.print(x, x, format="{} and {}")
R.assert_op(c, x, format="bad")
a = R.call_packed("kernel", x, ty_args=(R.Tensor((2, 3), "float32"),))
b = R.call_pure_packed("kernel", x, a, ty_args=(R.Tensor((2, 3), "float32"),))
return b
""",
        params=f'x: {MATRIX}, c: R.Tensor((), "bool")',
        options="(pure=False)",
    ),
    "functions that fill arrays": module(
        """
a = R.call_dps_packed("kernel", (x,), out_ty=R.Tensor((2, 3), dtype="float32"))
b = R.call_dps_packed("kernel", x, out_ty=[R.Tensor((2, 3), "float32"), R.Tensor((2,), "int8")])
c = R.call_dps_packed("kernel", R.tuple(), out_ty=R.Tensor((5,), "float32"))
return (a, b, c)
""",
        ret=None,
    ),
    "a function from outside": f"""
@I.ir_module
class Module:
    kernel = R.ExternFunc("kernel")

    @R.function
    def main(x: {MATRIX}) -> {MATRIX}:
        return x
""",
    "blocks of both kinds": module("""
with R.dataflow():
    a = R.add(x, x)
    b = R.add(a, a)
    R.output(a, b)
c = R.exp(a)
with R.dataflow():
    d = R.add(b, c)
    R.output(d)
return d
"""),
    "what devices tell each other": module(
        """
a = R.ccl.allreduce(x, "sum", True)
b = R.ccl.allgather(x, 2, True)
c = R.ccl.broadcast_from_worker0(x)
d = R.ccl.scatter_from_worker0(x, 2, 0)
e = R.dist.redistribute_replica_to_shard(x, num_workers=2, axis=0)
return (a, b, c, d, e)
""",
        ret=None,
    ),
    "names that clash": module("a = R.add(x, x)\na = R.add(a, a)\na = R.add(a, a)\nreturn a"),
    "standard operators": module(
        """
a = R.sum(x, axis=[1], keepdims=True)
b = R.mean(x)
c = R.permute_dims(x, axes=[1, 0])
d = R.permute_dims(x)
e = R.astype(x, dtype="float16")
f = R.full(R.shape([2, 2]), R.const(3.0, "float16"), dtype="float32")
g = R.nn.softmax(x, axis=-1)
h = R.expand_dims(x, axis=[0])
i = R.squeeze(h)
j = R.take(x, R.const([0, 1], "int64"), axis=1)
k = R.where(R.greater(x, x), x, R.negative(x))
l = R.broadcast_to(x, R.shape([4, 2, 3]))
o = R.cumsum(x, axis=1)
m = R.variance(x, axis=[0])
n = R.stack((x, x), axis=0)
p = R.full_like(x, R.const(2.0, "float32"))
q = R.nn.leakyrelu(x, alpha=0.1)
r = R.arange(0, 10, 1, "int64")
return (a, b, c, d, e, f, g, i, j, k, l, m, n, o, p, q, r)
""",
        ret=None,
    ),
}  # fmt: skip

NAMES = [*CASES, "an adjoint"]


@dataclass(frozen=True)
class Exchange:
    """Our modules and their print, and TVM's answers."""

    modules: dict[str, IRModule]
    answers: dict[str, dict[str, str]]
    signatures: dict[str, list[str]]


def relax_operators() -> dict[str, Any]:
    return {name: op for name, op in OPS.items() if name.startswith("relax.")}


@pytest.fixture(scope="module")
def exchange(tmp_path_factory: pytest.TempPathFactory) -> Exchange:
    sources = {
        **CASES,
        "an adjoint": str(Gradient("main")(parse_module(CASES["a perceptron"])).script()),
    }
    modules = {name: parse_module(text) for name, text in sources.items()}

    def questions() -> dict[str, Any]:
        cases = {
            name: {"source": text, "ours": str(modules[name].script())}
            for name, text in sources.items()
        }
        return {"cases": cases, "operators": dict.fromkeys(relax_operators())}

    peer = Path(__file__).parents[1] / "support" / "tvm_peer.py"
    given = asked_of_tvm(tmp_path_factory.mktemp("tvm"), peer, questions)
    return Exchange(modules, given["cases"], given["signatures"])


@pytest.mark.parametrize("name", NAMES)
def test_tvm_reads_what_we_print_as_it_reads_the_source(name: str, exchange: Exchange) -> None:
    assert "error" not in exchange.answers[name], exchange.answers[name]["error"]


@pytest.mark.parametrize("name", NAMES)
def test_we_read_what_tvm_prints_of_the_source(name: str, exchange: Exchange) -> None:
    assert_structural_equal(parse_module(exchange.answers[name]["source"]), exchange.modules[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_module_comes_back_from_tvm_equal(name: str, exchange: Exchange) -> None:
    """Printed by us, read and printed by TVM, read by us."""
    assert_structural_equal(parse_module(exchange.answers[name]["ours"]), exchange.modules[name])


def test_operators_take_the_arguments_of_their_namesakes_in_tvm(exchange: Exchange) -> None:
    """By name, and in the same place as long as they go by position."""
    wrong = []
    for name, op in relax_operators().items():
        theirs = exchange.signatures.get(name)
        if theirs is None:
            continue
        positional = next(
            (i for i, param in enumerate(op.params) if not param.is_arg), len(op.params)
        )
        named = [param.name for param in op.params[positional:]]
        unknown = [n for n in named if n not in (*theirs, *op.facts.get("own", ()))]
        if unknown or positional > len(theirs):
            wrong.append(f"{name}: {unknown or op.params} are not among {theirs}")
    assert not wrong, "\n".join(wrong)
