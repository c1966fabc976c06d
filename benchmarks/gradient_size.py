"""What backward programs cost before and after SimplifyGradient, as IR and as compiled by XLA.

    python benchmarks/gradient_size.py                   # every model
    python benchmarks/gradient_size.py MLP transformer   # some of them

As IR: bindings; FLOPs by the operators' cost rules; residual bytes, which are those of the values
that the forward part computes for its result and the backward part uses too. Compiled: instructions
of the optimised program, FLOPs as XLA counts them, and the bytes it needs beside arguments and
results. The last column is the number of matrix products and convolutions. Bindings and products
are counted in the text: those of a function that is called more than once, once.
"""

import argparse
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
from surroundings import temp_bytes

from relaxjax.ir.dim_variables import substitute_dim
from relaxjax.ir.dims import Dim, SymbolicVar
from relaxjax.ir.expr import Call, Tuple, TupleGetItem, Var, np_dtype
from relaxjax.ir.function import Function
from relaxjax.ir.infer import unify
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import Op
from relaxjax.ir.types import TensorType, TupleType, Type
from relaxjax.ir.uses import values_of
from relaxjax.ir.walk import global_vars, nested_bindings, post_order, used_vars
from relaxjax.lowering import to_jax
from relaxjax.ops.cost import function_cost
from relaxjax.ops.shapes import element_count
from relaxjax.passes import Gradient, SimplifyGradient

sys.path.insert(0, str(Path(__file__).parents[1] / "programs"))

from whole_model import WholeModel, type_of
from whole_models import mlp
from whole_residual_models import resnet50
from whole_sequence_models import transformer

SIZES: dict[str, Callable[[], WholeModel]] = {
    "MLP": lambda: mlp("float32", batch=64, features=784, hidden=128),
    "ResNet-50": lambda: resnet50("float32", widths=(64, 128, 256, 512), batch=8, size=64),
    "transformer": lambda: transformer(
        "float32", batch=8, length=64, heads=4, width=128, words=256
    ),
}
HEADINGS = (
    *("model", "program", "bindings", "MFLOP", "residual KiB"),
    *("instructions", "MFLOP compiled", "temp KiB", "products"),
)


def rows(name: str) -> list[tuple[Any, ...]]:
    """A line for the forward program, its adjoints, and each of these made simpler."""
    model = SIZES[name]()
    args = (*model.params, *model.inputs)
    wanted = model.module["main"].params[: len(model.params)]
    programs = {
        "adjoint": Gradient("main", require_grads=wanted)(model.module),
        "lazy adjoint": Gradient("main", require_grads=wanted, lazy=True)(model.module),
    }
    simpler = {f"{kind}, simplified": SimplifyGradient()(mod) for kind, mod in programs.items()}
    forward = (name, "forward", *measured(model.module, "main", args))
    adjoints = {**programs, **simpler}.items()
    return [
        forward,
        *((name, kind, *measured(mod, "main_adjoint", args)) for kind, mod in adjoints),
    ]


def measured(mod: IRModule, name: str, args: tuple[Any, ...]) -> tuple[Any, ...]:
    function, reached = mod[name], functions_of(mod, name)
    sizes: dict[SymbolicVar, Dim] = {}
    for param, arg in zip(function.params, args, strict=True):
        unify(param.ty, type_of(arg), sizes)
    cost = function_cost(function, mod)
    flops = "?" if cost is None else f"{int(substitute_dim(cost.flops, sizes)) / 1e6:.1f}"
    kept = sum(int(substitute_dim(size_of(var.ty), sizes)) for var in residuals(function))
    compiled: Any = jax.jit(to_jax(mod, name)).lower(*args).compile()
    return (
        sum(1 for f in reached for _ in nested_bindings(f)),
        flops,
        f"{kept / 1024:.0f}",
        compiled.as_text().count(" = "),
        f"{compiled.cost_analysis()['flops'] / 1e6:.1f}",
        f"{temp_bytes(compiled) / 1024:.0f}",
        sum(map(products, reached)),
    )


def functions_of(mod: IRModule, name: str) -> list[Function]:
    """A function and those that it calls, directly or through others."""
    functions, names = mod.relax_functions(), [name]
    for caller in names:
        called = (var.name for var in global_vars(functions[caller]))
        names += dict.fromkeys(found for found in called if found not in names)
    return [functions[found] for found in names]


def residuals(function: Function) -> list[Var]:
    """The values that are computed for the first result and used for the others too."""
    result = function.body.body
    if not isinstance(result, Tuple):
        return []
    bindings = list(nested_bindings(function))
    values = values_of(bindings)
    forward, waiting = set[Var](), list(used_vars(result.fields[0]))
    while waiting:
        var = waiting.pop()
        if var in values and var not in forward:
            forward.add(var)
            waiting += used_vars(values[var])
    given = set(function.params)
    for binding in bindings:
        part = isinstance(binding.value, TupleGetItem | Tuple | Var)
        if part and given.issuperset(used_vars(binding.value)):
            given.add(binding.var)
    later = [binding.value for binding in bindings if binding.var not in forward]
    used = {var for value in later for var in used_vars(value)}
    return [b.var for b in bindings if b.var in forward and b.var in used and b.var not in given]


def size_of(ty: Type | None) -> Dim:
    """The bytes of a value."""
    if isinstance(ty, TupleType):
        total: Dim = 0
        for field in ty.fields:
            total = total + size_of(field)
        return total
    assert isinstance(ty, TensorType)
    assert ty.dims is not None
    return element_count(ty.dims) * int(np_dtype(ty.dtype).itemsize)


def products(function: Function) -> int:
    return sum(
        isinstance(node, Call) and isinstance(node.op, Op) and node.op.fusion == "out_fusable"
        for node in post_order(function)
    )


def main() -> None:
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("models", nargs="*", choices=[*SIZES, []], help="all where none is given")
    names = parser.parse_args().models or list(SIZES)
    print("| " + " | ".join(HEADINGS) + " |")
    print("|---|---|" + "---:|" * (len(HEADINGS) - 2))
    for name in names:
        for row in rows(name):
            print("| " + " | ".join(map(str, row)) + " |", flush=True)


if __name__ == "__main__":
    main()
