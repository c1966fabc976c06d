"""Programs that passes on layouts, factors, branches and precision are measured on."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fusion import CHAIN, MLP

from relaxjax.ir.function import Function
from relaxjax.ir.module import IRModule
from relaxjax.ir.types import TensorType
from relaxjax.passes import (
    BindParams,
    CombineParallelBatchMatmul,
    CombineParallelConv2D,
    CombineParallelDense,
    CombineParallelMatmul,
    ConvertLayout,
    DecomposeOpsForInference,
    DenseToSparse,
    FastMath,
    FoldBatchnormToConv2D,
    FoldConstant,
    FoldScaleAxis,
    FuseOps,
    SimplifyFCTranspose,
    ToMixedPrecision,
    process_params,
)
from relaxjax.script import from_source

Change = Callable[[IRModule], IRModule]


@dataclass(frozen=True)
class PassCase:
    """A program before and after a pass, and the arguments of each.

    `differentiable` says whether the adjoints are measured too, and `change` is the pass, for a
    backward program. `tolerance` is how far the results may be apart, relative to the largest.
    """

    name: str
    before: IRModule
    after: IRModule
    args: list[Any]
    args_after: list[Any]
    differentiable: bool = True
    tolerance: float = 2e-3
    change: Change | None = None


def case(name: str, text: str, change: Change, constants: bool = False, **rest: Any) -> PassCase:
    """A function in script and what a pass makes of it; weights may be constants, as in serving."""
    before = program(text)
    args = drawn(before)
    if constants:
        weights = {p.name: a for p, a in zip(params(before)[1:], args[1:], strict=True)}
        before, args = BindParams("main", weights)(before), args[:1]
        rest["differentiable"] = False
    return PassCase(name, before, change(before), args, args, change=change, **rest)


def program(text: str) -> IRModule:
    """A module of the function that a text states: its parameters, then its dataflow block."""
    head, _, body = text.strip().partition("\n")
    lines = "".join(f"            {line.strip()}\n" for line in body.splitlines())
    source = (
        f"@I.ir_module\nclass Module:\n    @R.function\n    def main({signature(head)}):\n"
        f"        with R.dataflow():\n{lines}            R.output(gv)\n        return gv\n"
    )
    module: Any = from_source(source)
    return IRModule({"main": module["main"]})


def signature(head: str) -> str:
    """`x 2,3; w 3,4` as the parameters of a function, all float32."""
    parts = [part.split() for part in head.split(";")]
    return ", ".join(f'{name}: R.Tensor(({dims},), "float32")' for name, dims in parts)


def params(module: IRModule) -> Any:
    function = module["main"]
    assert isinstance(function, Function)
    return function.params


def drawn(module: IRModule) -> list[Any]:
    """Arguments: small, so that nothing saturates, and positive where they are vectors."""
    random = np.random.default_rng(0)
    found = []
    for param in params(module):
        assert isinstance(param.ty, TensorType)
        shape = param.ty.dims or ()
        wide = sum(dim != 1 for dim in shape) > 1
        value = random.normal(size=shape) * 0.05 if wide else random.uniform(0.5, 1.5, shape)
        found.append(value.astype("float32"))
    return found


def layouts() -> list[PassCase]:
    block = "\n".join(
        f"y{i} = R.nn.relu(R.add(R.nn.conv2d(y{i - 1}, w{i}, padding=1), b{i}))"
        for i in range(1, 4)
    )
    weights = "; ".join(f"w{i} 64,64,3,3; b{i} 64,1,1" for i in range(1, 4))
    residual = f"y0 16,64,16,16; {weights}\n{block}\ngv = R.add(y3, y0)"
    strided = (
        "x 16,32,32,32; w 64,32,3,3; v 128,64,3,3\n"
        "a = R.nn.max_pool2d(R.nn.relu(R.nn.conv2d(x, w, padding=1)), [2, 2], [2, 2])\n"
        "gv = R.mean(R.nn.relu(R.nn.conv2d(a, v, padding=1)), axis=[2, 3])"
    )
    change = ConvertLayout({"relax.nn.conv2d": ["NHWC", "HWIO"]})
    return [
        case("three 3x3 convolutions, 64 channels, 16x16", residual, change),
        case("convolutions and pooling to a mean", strided, change),
    ]


def branches() -> list[PassCase]:
    inception = "x 8,256,14,14; " + "; ".join(f"w{i} 64,256,1,1; b{i} 64,1,1" for i in range(4))
    parts = [f"R.nn.relu(R.add(R.nn.conv2d(x, w{i}), b{i}))" for i in range(4)]
    inception += f"\ngv = R.concat(({', '.join(parts)}), axis=1)"
    heads = "x {rows},256; " + "; ".join(f"w{i} 256,{{columns}}" for i in range(3))
    heads += "\na = R.matmul(x, w0)\nb = R.matmul(x, w1)\nc = R.matmul(x, w2)"
    heads += "\ngv = R.concat((a, b, c), axis=1)"
    many = "x 32,256; " + "; ".join(f"w{i} 256,32" for i in range(12)) + "\n"
    many += f"gv = R.concat(({', '.join(f'R.matmul(x, w{i})' for i in range(12))}), axis=1)"
    stacks = "x 16,64,64; " + "; ".join(f"w{i} 16,64,16" for i in range(4)) + "\n"
    stacks += f"gv = R.concat(({', '.join(f'R.matmul(x, w{i})' for i in range(4))}), axis=2)"
    return [
        case("CombineParallelConv2D: four 1x1 convolutions", inception, CombineParallelConv2D()),
        case(
            "CombineParallelConv2D: the same, constant weights",
            inception,
            folded(CombineParallelConv2D()),
            constants=True,
        ),
        case(
            "CombineParallelMatmul: q, k, v of 2048 tokens",
            heads.format(rows=2048, columns=256),
            CombineParallelMatmul(),
        ),
        case(
            "CombineParallelMatmul: the same, constant weights",
            heads.format(rows=2048, columns=256),
            folded(CombineParallelMatmul()),
            constants=True,
        ),
        case(
            "CombineParallelDense: twelve narrow heads, constant weights",
            many,
            folded(CombineParallelDense()),
            constants=True,
        ),
        case("CombineParallelBatchMatmul: four stacks", stacks, CombineParallelBatchMatmul()),
    ]


def folded(change: Change) -> Change:
    """A pass, and what is constant after it computed ahead."""
    return lambda module: FoldConstant(max_elements=2**22)(change(module))


def factors() -> list[PassCase]:
    norm = (
        "x 16,64,32,32; w 64,64,3,3; g 64; b 64; m 64; v 64\n"
        "y = R.nn.conv2d(x, w, padding=1)\n"
        "n = R.nn.batch_norm(y, g, b, m, v, axis=1, training=False)\n"
        "gv = R.nn.relu(n[0])"
    )
    scaled = (
        "x 16,64,32,32; s 64,1,1; w 64,64,3,3\n"
        "gv = R.nn.relu(R.nn.conv2d(R.nn.max_pool2d(R.multiply(x, s), [2, 2], [2, 2]), w))"
    )
    attention = (
        "q 8,512,64; k 8,64,512\n"
        'gv = R.nn.softmax(R.multiply(R.matmul(q, k), R.const(0.125, "float32")))'
    )

    def decomposed(module: IRModule) -> IRModule:
        return folded(FoldScaleAxis())(DecomposeOpsForInference()(module))

    return [
        case("FoldScaleAxis: batch norm in inference", norm, decomposed, constants=True),
        case(
            "FoldBatchnormToConv2D: the same", norm, folded(FoldBatchnormToConv2D()), constants=True
        ),
        case(
            "FoldScaleAxis: a scale before pooling and convolution",
            scaled,
            folded(FoldScaleAxis()),
            constants=True,
        ),
        case("FoldScaleAxis: the number in attention", attention, FoldScaleAxis()),
    ]


def precisions() -> list[PassCase]:
    layers = "\n".join(  # smooth, so that rounding turns no derivative on or off
        f"y{i} = R.nn.silu(R.add(R.matmul(y{i - 1}, w{i}), b{i}))" for i in range(1, 4)
    )
    weights = "; ".join(f"w{i} 1024,1024; b{i} 1024" for i in range(1, 4))
    mlp = f"y0 512,1024; {weights}\n{layers}\ngv = R.mean(y3, axis=1)"
    conv = "x 16,64,32,32; w 64,64,3,3\ngv = R.mean(R.nn.silu(R.nn.conv2d(x, w)), axis=[2, 3])"
    found = []
    for dtype in ("bfloat16", "float16"):
        change = ToMixedPrecision(dtype=dtype)
        found += [
            case(f"{dtype}: three dense layers of 1024", mlp, change, tolerance=0.05),
            case(f"{dtype}: a 3x3 convolution", conv, change, tolerance=0.05),
        ]
    return found


def dense_weights() -> list[PassCase]:
    before = program("x 128,1024; w 1024,1024\ngv = R.matmul(x, R.permute_dims(w))")
    x, w = drawn(before)
    name = "SimplifyFCTranspose: 128 rows, 1024 to 1024"
    after = SimplifyFCTranspose(["w"])(before)
    return [
        PassCase(name, before, after, [x, w], [x, w.T], differentiable=False),
        *(
            sparse(rows, block, share)
            for rows in (1, 128)
            for block, share in (((32, 32), 0.05), ((32, 32), 0.2), ((16, 1), 0.05))
        ),
    ]


def sparse(rows: int, block: tuple[int, int], share: float) -> PassCase:
    """A dense layer of which a share of the blocks is not zero."""
    before = program(f"x {rows},2048; w 2048,2048\ngv = R.matmul(x, w)")
    random = np.random.default_rng(0)
    x, weight = drawn(before)
    grid = (2048 // block[0], 2048 // block[1])
    used = np.kron(random.random(grid) < share, np.ones(block))
    weight = (weight * used).T.astype("float32")
    packed = process_params(before["main"], {"w": weight}, block, 0.5)
    after = DenseToSparse(packed.weight_name, packed.weight_shape)(before)
    name = f"{rows} rows, 2048 to 2048, {share:.0%} of blocks of {block[0]}x{block[1]}"
    return PassCase(name, before, after, [x, weight], [x, *packed.params.values()], False)


def approximations() -> list[PassCase]:
    """Activations alone, on a tensor in the cache, and between dense layers."""
    found = []
    for name in ("tanh", "erf", "sigmoid", "nn.silu", "nn.gelu"):
        text = f"x 256,1024\ngv = R.{name}(x)"
        found.append(case(f"R.{name} of 256x1024", text, FastMath()))
    layers = "x 128,512; w 512,2048; v 2048,512\nh = R.nn.gelu(R.matmul(x, w))\ngv = R.matmul(h, v)"
    return [*found, case("gelu between two dense layers", layers, FastMath())]


def groups() -> list[PassCase]:
    """Operators grouped into functions; benchmarks/fusion.py runs them one by one, too."""
    texts = {"MLP, batch 128": MLP, "20 elementwise operators": CHAIN}
    cases = []
    for name, text in texts.items():
        before: Any = from_source(text)
        args = drawn(before)
        after = FuseOps()(before)
        cases.append(PassCase(f"FuseOps: {name}", before, after, args, args, change=FuseOps()))
    return cases


FAMILIES: dict[str, Callable[[], list[PassCase]]] = {
    "ConvertLayout": layouts,
    "CombineParallel": branches,
    "FoldScaleAxis": factors,
    "FuseOps": groups,
    "ToMixedPrecision": precisions,
    "DenseToSparse": dense_weights,
    "FastMath": approximations,
}
