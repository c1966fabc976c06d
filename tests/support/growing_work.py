"""What may be done to a program, to see how the work of it grows."""

import pickle
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
from growing_programs import jax_args
from pass_samples import Case, sample

from relaxjax import IRModule, build, from_jax, from_source, to_jax, to_python, value_and_grad
from relaxjax.ir.check import check_well_formed
from relaxjax.ir.renew import renew
from relaxjax.ir.serialize import load_json, save_json
from relaxjax.ir.structural import assert_structural_equal, structural_hash
from relaxjax.losses import MSELoss
from relaxjax.ops.cost import function_cost
from relaxjax.ops.platform import PLATFORM
from relaxjax.passes import (
    AppendLoss,
    CanonicalizeBindings,
    ChangeBatch,
    DecomposeOpsForTraining,
    EliminateCommonSubexpr,
    Gradient,
    HessianVectorProduct,
    Jvp,
    LegalizeOps,
    MutateOpsForTraining,
    OffloadResiduals,
    Rematerialize,
    SimplifyGradient,
)

# Makes ready what is to be counted or timed.
Doing = Callable[[IRModule], Callable[[], Any]]


def sampled(name: str, mod: IRModule) -> Callable[[], Any]:
    made, _ = sample(name, Case(mod, "main", jax_args(mod)))
    return partial(made, mod)


def reading(mod: IRModule) -> Callable[[], Any]:
    return partial(from_source, str(mod.script()))


def comparing(mod: IRModule) -> Callable[[], Any]:
    return partial(assert_structural_equal, from_source(str(mod.script())), mod)


def tracing(mod: IRModule) -> Callable[[], Any]:
    return partial(jax.eval_shape, to_jax(mod, "main"), *jax_args(mod))


def importing(mod: IRModule) -> Callable[[], Any]:
    return partial(from_jax, to_jax(mod, "main"), *jax_args(mod))


def differentiating(mod: IRModule) -> Callable[[], Any]:
    args = jax_args(mod)
    floats = [place for place, arg in enumerate(args) if arg.dtype == "float32"]
    return lambda: value_and_grad(to_jax(mod, "main"), floats).module(*args)


# What reads and writes programs, and runs them.
ENTRY_POINTS: dict[str, Doing] = {
    "script": lambda mod: mod.script,
    "from_source": reading,
    "well_formed": lambda mod: partial(check_well_formed, mod),
    "structural_equal": comparing,
    "structural_hash": lambda mod: partial(structural_hash, mod),
    "json": lambda mod: lambda: load_json(save_json(mod)),
    "pickle": lambda mod: lambda: pickle.loads(pickle.dumps(mod)),
    "renew": lambda mod: partial(renew, mod["main"]),
    "function_cost": lambda mod: partial(function_cost, mod["main"], mod),
    "build": lambda mod: partial(build, mod),
    "to_jax": tracing,
    "to_python": lambda mod: partial(to_python, mod),
    "from_jax": importing,
}


def simplified(mod: IRModule) -> IRModule:
    return SimplifyGradient()(Gradient("main", lazy=True)(mod))


def legalised(mod: IRModule) -> IRModule:
    mod = EliminateCommonSubexpr()(LegalizeOps()(simplified(mod)))
    return CanonicalizeBindings()(mod)


def to_append(mod: IRModule) -> Callable[[], Any]:
    loss = MSELoss(reduction="sum")(mod["main"].ret_ty, mod["main"].ret_ty)
    return lambda: AppendLoss("main", loss)(mod)


# The passes that make another function of a program, and those whose programs are adjoints.
OTHERS: dict[str, Doing] = {
    "AppendLoss": to_append,
    "ChangeBatch": lambda mod: lambda: ChangeBatch({}, 3)(mod),
    "DecomposeOpsForTraining": lambda mod: lambda: DecomposeOpsForTraining()(mod),
    "Gradient": lambda mod: lambda: Gradient("main")(mod),
    "Gradient lazy": lambda mod: lambda: Gradient("main", lazy=True)(mod),
    "HessianVectorProduct": lambda mod: lambda: HessianVectorProduct("main")(mod),
    "Jvp": lambda mod: lambda: Jvp("main")(mod),
    "MutateOpsForTraining": lambda mod: lambda: MutateOpsForTraining()(mod),
    "SimplifyGradient": lambda mod: partial(SimplifyGradient(), Gradient("main", lazy=True)(mod)),
    "LegalizeOps": lambda mod: partial(LegalizeOps(), simplified(mod)),
    "Rematerialize": lambda mod: partial(Rematerialize("main_adjoint"), legalised(mod)),
    "OffloadResiduals": lambda mod: partial(
        OffloadResiduals("main_adjoint"), legalised(mod).with_attr(PLATFORM, "cuda")
    ),
}
