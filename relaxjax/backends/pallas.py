"""The backend "pallas": chains of elementwise operators and matrix products, a kernel each."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp

from relaxjax.dpl import FusionPattern, PatternCheckContext, make_fused_bias_activation_pattern
from relaxjax.ir.expr import Call, Constant, Expr, Var
from relaxjax.ir.function import Binding, Function
from relaxjax.ir.op import Op
from relaxjax.ir.tensor_types import known_ndim
from relaxjax.ir.types import TensorType, is_float
from relaxjax.ir.walk import used_vars
from relaxjax.ops.platform import chosen_platform

from .evaluation import Evaluation, operator_calls
from .pallas_kernels import elementwise_kernel, matmul_kernel

_ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu")
_FUNCTIONS = ("tanh", "sigmoid")

# Loops and long series, which no GPU's kernel compiler has as one instruction.
_TOO_DEEP = {f"relax.{name}" for name in ("digamma", "erf_inv", "lgamma", "polygamma")}


def pallas_supports(call: Call) -> bool:
    """Whether a call computes a tensor of floats, or of what compares them, element by element."""
    types = [arg.ty for arg in call.args if isinstance(arg, Var | Constant)]
    return (
        isinstance(call.op, Op)
        and bool(call.op.facts.get("elementwise"))
        and call.op.name not in _TOO_DEEP
        and isinstance(call.ty, TensorType)
        and call.ty.dims is not None
        and any(isinstance(ty, TensorType) and is_float(ty.dtype or "") for ty in types)
    )


def _is_plain_product(context: PatternCheckContext) -> bool:
    """Whether a product is by a matrix, its bias a row, and nothing else needs what is inside."""
    x, weight = context.annotated_expr["x"], context.annotated_expr["weight"]
    bias = context.annotated_expr.get("bias")
    return (
        not context.leaks
        and known_ndim(x) >= 2
        and known_ndim(weight) == 2
        and (bias is None or (known_ndim(bias) == 1 and _dims(bias) == _dims(weight)[-1:]))
        and is_float(getattr(weight.ty, "dtype", None) or "")
    )


def _dims(expr: Expr) -> tuple[Any, ...]:
    return (expr.ty.dims or ()) if isinstance(expr.ty, TensorType) else ()


def _pattern(bias: bool, activation: str | None) -> FusionPattern:
    out = make_fused_bias_activation_pattern("relax.matmul", bias, activation)
    inner = out.args[0] if activation else out
    product = inner.parts()[1] if bias else inner
    x, weight = product.parts()[1:]
    annotations = {"x": x, "weight": weight}
    if bias:
        annotations["bias"] = inner.parts()[2]
    words = ["matmul", *(["bias"] if bias else [])]
    words += [activation.rpartition(".")[2]] if activation else []
    return FusionPattern(f"pallas.{'_'.join(words)}", out, annotations, _is_plain_product)


def pallas_patterns() -> Iterator[FusionPattern]:
    """Products with a bias and an activation, then with less, then bare."""
    names = [*(f"relax.nn.{a}" for a in _ACTIVATIONS), *(f"relax.{f}" for f in _FUNCTIONS)]
    for bias in (True, False):
        for activation in (*names, None):
            yield _pattern(bias, activation)


def compile_pallas(region: Function, interpret: bool | None = None) -> Callable[..., Any]:
    """A region as a row of Pallas kernels: one a product, one a chain of one shape.

    `interpret` says whether Pallas interprets them, as it must on a CPU; by default it does there.
    """
    composites = [b.value for b in region.body.bindings() if isinstance(b.value, Function)]
    for call in operator_calls(region):
        inside = any(call is part for closure in composites for part in operator_calls(closure))
        if not inside and not pallas_supports(call):
            raise NotImplementedError(f"the backend `pallas` cannot compute `{call}`")
    steps = list(_steps(region))

    def run(*args: Any) -> Any:
        interpreted = chosen_platform() == "cpu" if interpret is None else interpret
        state = Evaluation(_lowered)
        state.bind(region, args)
        for step in steps:
            step(state, interpreted)
        return state.value(region.body.body)

    return run


Step = Callable[[Evaluation, bool], None]


def _steps(region: Function) -> Iterator[Step]:
    """What a region does kernel by kernel: neighbours of one shape go into one."""
    closures: dict[Var, Function] = {}
    chain: list[Binding] = []
    bindings = list(region.body.bindings())
    for binding in bindings:
        value = binding.value
        belongs = isinstance(value, Call) and isinstance(value.op, Op)
        if chain and not (belongs and _dims(chain[0].var) == _dims(binding.var)):
            yield _chain_step(tuple(chain), region)
            chain = []
        if isinstance(value, Function):
            closures[binding.var] = value
        elif belongs:
            chain.append(binding)
        elif isinstance(value, Call) and isinstance(value.op, Var) and value.op in closures:
            yield _product_step(binding, closures[value.op])
        else:
            yield _plain_step(binding)
    if chain:
        yield _chain_step(tuple(chain), region)


def _plain_step(binding: Binding) -> Step:
    """A tuple or a field of one: no kernel."""

    def step(state: Evaluation, interpret: bool) -> None:
        state.env[binding.var] = state.value(binding.value)

    return step


def _chain_step(chain: Sequence[Binding], region: Function) -> Step:
    """One kernel for bindings of one shape; it writes those values that others read."""
    own = [binding.var for binding in chain]
    inside = {id(binding) for binding in chain}
    others = [b.value for b in region.body.bindings() if id(b) not in inside]
    read = {var for value in (*others, region.body.body) for var in used_vars(value)}
    outputs = [var for var in own if var in read]
    constants = [
        arg
        for binding in chain
        if isinstance(binding.value, Call)
        for arg in binding.value.args
        if isinstance(arg, Constant)
    ]
    used = dict.fromkeys(v for b in chain for v in used_vars(b.value) if v not in own)

    def step(state: Evaluation, interpret: bool) -> None:
        shape = tuple(map(state.dim, _dims(own[0])))
        inputs = [*(state.env[var] for var in used), *(jnp.asarray(c.data) for c in constants)]

        def body(*blocks: Any) -> list[Any]:
            inner = Evaluation(_lowered, sizes=state.sizes)
            inner.env.update(zip(used, blocks, strict=False))
            given = blocks[len(used) :]
            inner.constants.update((id(c), b) for c, b in zip(constants, given, strict=True))
            for binding in chain:
                inner.env[binding.var] = inner.value(binding.value)
            return [inner.env[var] for var in outputs]

        dtypes = [_jax_dtype(var) for var in outputs]
        results = elementwise_kernel(body, inputs, shape, dtypes, interpret)
        state.env.update(zip(outputs, results, strict=True))

    return step


def _product_step(binding: Binding, closure: Function) -> Step:
    """One kernel for a product and what is done to it."""
    product, *rest = closure.body.bindings()
    assert isinstance(product.value, Call)
    assert isinstance(binding.value, Call)
    x, weight = product.value.args[:2]
    args = binding.value.args
    own = {item.var for item in (product, *rest)}
    beside = list(
        dict.fromkeys(
            arg
            for item in rest
            if isinstance(item.value, Call)
            for arg in item.value.args
            if arg not in own
        )
    )

    def step(state: Evaluation, interpret: bool) -> None:
        outer = Evaluation(_lowered)
        outer.bind(closure, [state.value(arg) for arg in args])

        def finish(block: Any, *rows: Any) -> Any:
            inner = Evaluation(_lowered, sizes=outer.sizes)
            inner.env[product.var] = block
            for arg, row in zip(beside, rows, strict=True):
                if isinstance(arg, Var):
                    inner.env[arg] = row
                else:
                    inner.constants[id(arg)] = row
            for item in rest:
                inner.env[item.var] = inner.value(item.value)
            return inner.value(closure.body.body) if rest else block

        left, right, *rows = (jnp.asarray(outer.value(e)) for e in (x, weight, *beside))
        dtype = _jax_dtype(product.var)
        state.env[binding.var] = matmul_kernel(left, right, finish, rows, dtype, interpret)

    return step


def _jax_dtype(var: Var) -> Any:
    assert isinstance(var.ty, TensorType)
    return jax.dtypes.canonicalize_dtype(var.ty.dtype)


def _lowered(call: Call, args: Sequence[Any], attrs: Mapping[str, Any]) -> Any:
    assert isinstance(call.op, Op)
    assert call.op.lower is not None
    return call.op.lower(*args, **attrs)
