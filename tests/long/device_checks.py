"""What tests/long/on_device.py compares: operators, whole models and memory plans of a device."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from memory import SHARES
from models import ADJOINT, QUICK, prepared
from models import MODELS as SUITE
from operator_evaluation import call_of, evaluate, has_slope, lowered, reverse
from operator_sample_table import SAMPLES
from operator_samples import Sample
from whole_models import MODELS

from relaxjax.ir.op import OPS, ZERO_GRADIENT, get_op
from relaxjax.lowering import to_jax
from relaxjax.lowering.memory import temporary_bytes
from relaxjax.ops.platform import default_device, lowering_for, platform_name
from relaxjax.passes import (
    EliminateCommonSubexpr,
    Gradient,
    LegalizeOps,
    MemoryPlanError,
    SimplifyGradient,
)
from relaxjax.passes.memory.offload import peak_as_written
from relaxjax.passes.memory.rematerialize import decided, planned

Row = dict[str, Any]
Gradients = Callable[[Any, dict[Any, Any], list[Any]], list[Any]]

# What a program cannot be compiled with, and what differs by device on purpose.
LEFT_OUT = {"relax.dynamic_strided_slice", "relax.nonzero", "relax.tensor_to_shape", "relax.unique"}
# Vectors whose signs, or phases, no definition says: how large their numbers are is compared.
OF_ANY_SIGN = {"relax.linalg.eigh", "relax.linalg.svd"}
QUICK_OPERATORS = ["relax.nn.conv2d", "relax.nn.max_pool2d", "relax.nn.softmax", "relax.sum"]
MOST_SAMPLES = 4
# Of the suite, what is compiled within seconds. Of smaller models little is values: XLA counted 33
# MiB for a GPT that is predicted to take 3.
BUDGETED = ["MLP of 64 layers", "U-Net", "ResNet-18", "LSTM", "GPT of 8 layers"]
# Of the largest number of a result, in the bits of its dtype: sums are in another order.
ROUNDINGS = 64


def operators() -> list[str]:
    return sorted(
        name
        for name in SAMPLES
        if name not in LEFT_OUT
        and OPS[name].lower is not None
        and OPS[name].pure
        and not {"loop", "higher_order"} & set(OPS[name].facts)
    )


def operator_row(name: str, quick: bool) -> Row:
    """How far results lie from the CPU's, and gradients by the rule from JAX's own there."""
    samples = list(enumerate(SAMPLES[name][:MOST_SAMPLES]))
    with jax.enable_x64(default_device().platform != "tpu"):
        here, found = computed(name, samples, default_device(), by_the_rule)
        there, expected = computed(name, samples, jax.devices("cpu")[0], by_jax)
    if name in OF_ANY_SIGN:
        here, there = jax.tree.map(np.abs, (here, there))
    row = {"values": apart(here, there), "samples": len(samples)}
    if found:
        row["gradients"] = max(apart(found[index], expected[index]) for index in found)
    worst = max(row["values"], row.get("gradients", 0.0))
    if not worst <= ROUNDINGS:
        raise AssertionError(f"results are {worst:.1f} roundings apart: {row}")
    return row


def computed(
    name: str, samples: list[tuple[int, Sample]], device: jax.Device, gradients: Gradients
) -> Any:
    """Results of samples, and their gradients, in one program of a device."""
    calls = {index: call_of(get_op(name), sample) for index, sample in samples}
    values = {
        index: [
            jnp.asarray(a.value(sample.seed(i))) for i, a in enumerate(calls[index][1].values())
        ]
        for index, sample in samples
    }

    def run(values: dict[int, list[Any]]) -> Any:
        results, slopes = {}, {}
        for index, sample in samples:
            call, arrays = calls[index]
            inputs = dict(zip(arrays, values[index], strict=True))
            results[index] = jax.tree.map(numbers, lowered(call, inputs))
            if sample.smooth and get_op(name).gradient not in (None, ZERO_GRADIENT):
                active = [var for var in inputs if has_slope(var.ty)]
                slopes[index] = gradients(call, inputs, active)
        return results, {index: found for index, found in slopes.items() if found}

    with jax.default_device(device), lowering_for(platform_name(device)):
        found: Any = jax.device_get(jax.jit(run)(jax.device_put(values, device)))
    return found


def numbers(value: Any) -> Any:
    """A random key as its numbers, and a number of a shape as an array."""
    value = jnp.asarray(value)
    is_key = jnp.issubdtype(value.dtype, jax.dtypes.prng_key)
    return jax.random.key_data(value) if is_key else value


def by_jax(call: Any, inputs: dict[Any, Any], active: list[Any]) -> list[Any]:
    """By JAX, of the lowering."""
    floats, xs = _floats(call, inputs, active), [inputs[var] for var in active]
    outs, pullback = jax.vjp(floats, *xs)
    return list(pullback(_adjoints_of(outs)))


def by_the_rule(call: Any, inputs: dict[Any, Any], active: list[Any]) -> list[Any]:
    xs = [inputs[var] for var in active]
    given = iter(_adjoints_of(jax.eval_shape(_floats(call, inputs, active), *xs)))
    memo: dict[int, Any] = {}
    adjoints = jax.tree.map(
        lambda x: next(given) if jnp.issubdtype(x.dtype, jnp.floating) else jnp.zeros_like(x),
        evaluate(call, inputs, memo),
    )
    found = reverse(call, adjoints, inputs, memo)
    return [found.get(var, jnp.zeros_like(inputs[var])) for var in active]


def _floats(call: Any, inputs: dict[Any, Any], active: list[Any]) -> Callable[..., list[Any]]:
    """The results that have slopes, as a function of the arguments that do."""

    def run(*xs: Any) -> list[Any]:
        leaves = jax.tree.leaves(lowered(call, inputs | dict(zip(active, xs, strict=True))))
        return [leaf for leaf in leaves if jnp.issubdtype(leaf.dtype, jnp.floating)]

    return run


def _adjoints_of(outs: list[Any]) -> list[Any]:
    random = np.random.default_rng(1)
    return [jnp.asarray(random.uniform(-1, 1, out.shape), out.dtype) for out in outs]


def apart(found: Any, expected: Any, least: float = 0.1) -> float:
    """The greatest difference, in roundings of the largest number of its array, or of the least.

    Samples are numbers of about one: where they cancel, what is left has their roundings.
    """
    worst = 0.0
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        one, other = np.asarray(one), np.asarray(other)
        if not jnp.issubdtype(other.dtype, jnp.inexact):
            worst = max(worst, 0.0 if np.array_equal(one, other) else np.inf)
            continue
        bit = float(jnp.finfo(other.dtype).eps)  # type: ignore[no-untyped-call]
        wide = "complex128" if other.dtype.kind == "c" else "float64"
        one, other = one.astype(wide), other.astype(wide)
        finite = np.isfinite(other)
        odd = np.isnan(one[finite]).any()
        if odd or not np.array_equal(one[~finite], other[~finite], equal_nan=True):
            return np.inf
        if finite.any():
            scale = max(float(np.abs(other[finite]).max()), least)
            worst = max(worst, float(np.abs(one - other)[finite].max()) / (bit * scale))
    return worst


def model_row(name: str, quick: bool) -> Row:
    """How far the loss and gradients lie from those of plain JAX on the CPU, in their largest."""
    model = MODELS[name]("float32")
    params = model.module["main"].params[: len(model.params)]
    mod = SimplifyGradient()(Gradient("main", params, lazy=True)(model.module))
    mod = EliminateCommonSubexpr()(LegalizeOps()(mod))
    arguments = (*model.params, *model.inputs)
    found = jax.jit(to_jax(mod, "main_adjoint"))(*arguments)

    def loss(*args: Any) -> Any:
        result = model.plain(*args)
        return (result[0] if isinstance(result, tuple) else result), result

    plain = jax.value_and_grad(loss, tuple(range(len(params))), has_aux=True)
    with jax.default_device(jax.devices("cpu")[0]), jax.numpy_rank_promotion("allow"):
        (_, result), expected = jax.jit(plain)(*arguments)
    far = relative(jax.device_get(found), jax.device_get((result, expected)))
    if not far <= 1e-3:
        raise AssertionError(f"a gradient is {far:.1e} of its largest number apart")
    return {"apart": far}


def relative(found: Any, expected: Any) -> float:
    """The greatest difference, in parts of the largest number of its array."""
    pairs = zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True)
    differences = [np.abs(a - b).max() / max(np.abs(b).max(), 1e-6) for a, b in pairs]
    return float(np.max(differences))  # NaN if one of them is


def budget_row(name: str, quick: bool) -> Row:
    """What plans for shares of everything kept take, by the compiler's count; None: no plan."""
    mod = prepared((QUICK if quick else SUITE)[name]())
    whole = temporary_bytes(mod, ADJOINT)
    row: Row = {"bytes": whole, "predicted": peak_as_written(mod, ADJOINT), "shares": {}}
    for share in SHARES[: 1 if quick else None]:
        taken = extra = None
        with suppress(MemoryPlanError):
            found = decided(mod, ADJOINT, share)
            taken = temporary_bytes(planned(mod, ADJOINT, found), ADJOINT) / whole
            extra = found.plan.extra / found.planner.total
        if taken is not None and taken > share:
            raise AssertionError(f"a plan for {share:.0%} takes {taken:.0%}")
        row["shares"][f"{share:.0%}"] = {"taken": taken, "again": extra}
    return row
