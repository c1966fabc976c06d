"""Programs follow JAX to the platform that it lowers them for, or say that they cannot."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import export
from parsing import parse_main

import relaxjax
from relaxjax.ir.module import IRModule
from relaxjax.ir.op import get_op
from relaxjax.lowering import (
    LoweringError,
    build,
    exported_function,
    for_each_platform,
    to_jax,
    to_mlir,
)
from relaxjax.lowering.when_lowered import only_for
from relaxjax.ops.once import computed_once
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import LegalizeOps, Rematerialize

PLATFORMS = ("cpu", "cuda", "rocm", "tpu")
DATA = np.random.default_rng(0).normal(size=(2, 4, 8, 8)).astype("float32")
KERNEL = np.random.default_rng(1).normal(size=(4, 1, 3, 3)).astype("float32")
LAYER = parse_main(
    "y = R.nn.conv2d(x, w, padding=1, groups=4)\nreturn y", x=(2, 4, 8, 8), w=(4, 1, 3, 3)
)
BOTH = re.escape("the program is made for cuda, but it is to run on cpu: run it on cuda.")


def depthwise(kernel: Any, data: Any) -> jax.Array:
    maps = jax.lax.conv_general_dilated(data, kernel, (1, 1), "SAME", feature_group_count=4)
    return jnp.sum(jnp.tanh(maps) ** 2)


def lowered(function: Any, *args: Any, platforms: Sequence[str]) -> Counter[str]:
    """How often a function lowered for some platforms has each operation."""
    text = export.export(jax.jit(function), platforms=platforms)(*args).mlir_module()
    return Counter(re.findall(r"stablehlo\.(\w+)", text))


@pytest.mark.parametrize("platform", PLATFORMS)
def test_a_backward_program_has_the_forms_of_the_platform_that_it_is_lowered_for(
    platform: str,
) -> None:
    found = lowered(relaxjax.value_and_grad(depthwise), KERNEL, DATA, platforms=[platform])
    on_cpu = platform == "cpu"
    assert (found["slice"], found["convolution"]) == ((27, 0) if on_cpu else (0, 2))


def test_lowered_for_several_platforms_it_has_the_forms_of_each() -> None:
    found = lowered(relaxjax.value_and_grad(depthwise), KERNEL, DATA, platforms=["cpu", "cuda"])
    assert found["slice"] == 27
    assert found["convolution"] >= 2  # JAX has several forms of one itself


def test_a_mapped_backward_program_follows_too() -> None:
    many = jax.vmap(relaxjax.value_and_grad(depthwise), (None, 0))
    data = np.stack([DATA, 2 * DATA])
    assert lowered(many, KERNEL, data, platforms=["cuda"])["convolution"] == 2
    chex.assert_trees_all_close(
        jax.jit(many)(KERNEL, data),
        jax.vmap(jax.value_and_grad(depthwise), (None, 0))(KERNEL, data),
        rtol=1e-4,
    )


def test_what_is_the_same_for_all_platforms_is_one_program() -> None:
    step = relaxjax.value_and_grad(lambda w: jnp.sum(jnp.tanh(w) ** 2))
    assert "platform_index" not in str(jax.make_jaxpr(step)(KERNEL))


def test_the_program_that_is_compiled_is_that_of_its_platform_alone() -> None:
    """To be able to follow costs nothing: XLA compiles the same, instruction by instruction."""
    step = relaxjax.value_and_grad(depthwise)
    module = step.module(KERNEL, DATA)
    alone = to_jax(module, "loss_adjoint")

    def instructions(function: Any) -> tuple[list[str], int]:
        compiled: Any = jax.jit(function).lower(KERNEL, DATA).compile()
        lines = re.findall(r"= (\S+ [\w-]+)\(", compiled.as_text())
        return sorted(lines), compiled.memory_analysis().temp_size_in_bytes

    assert "platform_index" in str(jax.make_jaxpr(step)(KERNEL, DATA))
    assert instructions(step) == instructions(lambda w, x: alone(w, x))


def test_other_programs_are_made_only_where_they_are_lowered() -> None:
    made: list[str] = []

    def make(platform: str) -> Any:
        made.append(platform)
        return {"cpu": jnp.sin, "tpu": jnp.tanh}.get(platform, jnp.cos)

    x = np.ones(3, "float32")
    function = for_each_platform(make, "cpu")
    for run in (function, jax.jit(function)):
        chex.assert_trees_all_close(run(x), jnp.sin(x), rtol=1e-6)
    assert set(made) == {"cpu"}
    assert lowered(function, x, platforms=["tpu"])["tanh"] == 1
    assert set(made) == {"cpu", "tpu"}


def test_what_is_read_has_a_program_for_the_cpu_and_one_for_all_others() -> None:
    """Each is in the module, and only a CPU has forms of its own there."""
    made: list[str] = []

    def make(platform: str) -> Any:
        made.append(platform)
        return jnp.sin if platform == "cpu" else jnp.cos

    module = relaxjax.from_jax(for_each_platform(make, "cpu"), DATA)
    assert set(made) == {"cpu", "another platform"}
    assert module.script().count("L.cos(") == 1


def test_values_computed_once_follow_the_same_rule() -> None:
    """Of a division no GPU has need, and a barrier is nothing to a CPU."""

    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(computed_once(jnp.tanh(x)) ** 2)

    step = relaxjax.value_and_grad(loss)
    found = {p: lowered(step, DATA, platforms=[p]) for p in ("cpu", "cuda", "tpu")}
    barriers = {p: ops["optimization_barrier"] for p, ops in found.items()}
    assert barriers == {"cpu": 0, "cuda": 1, "tpu": 1}
    assert {p: ops["divide"] for p, ops in found.items()} == {"cpu": 1, "cuda": 0, "tpu": 0}


def made_for_cuda() -> IRModule:
    with lowering_for("cuda"):
        return relaxjax.value_and_grad(depthwise).module(KERNEL, DATA)


def test_a_module_that_is_made_for_a_platform_says_so() -> None:
    module = made_for_cuda()
    assert module.attrs["platform"] == "cuda"
    assert 'I.module_attrs({"platform": "cuda"})' in module.script()
    assert LegalizeOps()(module) is module


def test_to_run_it_elsewhere_is_an_error_that_names_both() -> None:
    module = made_for_cuda()
    program = to_jax(module, "loss_adjoint")
    many = jax.vmap(program)
    for run in (program, jax.jit(program)):
        with pytest.raises(LoweringError, match=BOTH):
            run(KERNEL, DATA)
    for run in (many, jax.jit(many)):
        with pytest.raises(LoweringError, match=BOTH):
            run(KERNEL[None], DATA[None])
    assert lowered(program, KERNEL, DATA, platforms=["cuda"])["convolution"] == 2
    with pytest.raises(LoweringError, match=BOTH):
        LegalizeOps("cpu")(module)
    with pytest.raises(LoweringError, match=BOTH):
        build(module, "cpu")
    with pytest.raises(LoweringError, match="made for cuda, of which there is no device here"):
        build(module)


def test_whoever_means_it_takes_the_attribute_away() -> None:
    program = to_jax(made_for_cuda().without_attr("platform"), "loss_adjoint")
    chex.assert_trees_all_close(
        program(KERNEL, DATA),
        (depthwise(KERNEL, DATA), (jax.grad(depthwise)(KERNEL, DATA),)),
        rtol=1e-4,
    )


def test_programs_for_one_platform_are_differentiated_as_they_are() -> None:
    function = only_for("cpu", lambda x: jnp.sum(x**2))
    chex.assert_trees_all_close(jax.jit(jax.grad(function))(DATA), 2 * DATA)
    with pytest.raises(LoweringError, match=BOTH):
        jax.jit(jax.grad(only_for("cuda", lambda x: jnp.sum(x**2))))(DATA)


def test_a_budget_is_kept_where_its_platform_is() -> None:
    """XLA counts for a platform by its compiler, which a machine without a device lacks."""
    step = relaxjax.value_and_grad(depthwise, memory_budget=1.0)
    assert lowered(step, KERNEL, DATA, platforms=["cpu"])["slice"] == 27
    match = "what memory a program takes on cuda is told by the compiler for it: there is no device"
    with pytest.raises(LoweringError, match=match):
        lowered(step, KERNEL, DATA, platforms=["cuda"])


def test_what_is_planned_is_for_the_platform_it_was_planned_by() -> None:
    def loss(x: jax.Array) -> jax.Array:
        return jnp.sum(jnp.sin(jnp.exp(x)))

    module = relaxjax.value_and_grad(loss).module(DATA)
    assert "platform" not in module.attrs
    name = next(
        str(binding.var.name)
        for binding in module["loss_adjoint"].body.bindings()
        if "exp" in str(binding.value)
    )
    again = Rematerialize("loss_adjoint", must_recompute=[name])
    with lowering_for("tpu"):
        assert again(module).attrs["platform"] == "tpu"
    lower = get_op("relax.grad.delay").lower
    assert lower is not None
    written_out = LegalizeOps(customize_map={"relax.grad.delay": lower})
    with lowering_for("tpu"):
        planned = written_out(again(module))
    assert "optimization_barrier" in planned.script()
    assert "optimization_barrier" not in written_out(again(module)).script()
    assert LegalizeOps()(again(module)).script() == again(module).script()


def test_a_program_that_is_not_legalised_follows_operator_by_operator() -> None:
    """So does what JAX differentiates of it."""
    program = to_jax(LAYER, "main")

    def loss(kernel: Any) -> Any:
        return jnp.sum(program(DATA, kernel) ** 2)

    for function, slices, convolutions in ((loss, 9, 1), (jax.grad(loss), 9, 2)):
        found = {p: lowered(function, KERNEL, platforms=[p]) for p in ("cpu", "cuda")}
        assert found["cpu"]["slice"] >= slices
        assert (found["cpu"]["convolution"], found["cuda"]["convolution"]) == (0, convolutions)
    legal = to_jax(LegalizeOps("cpu")(LAYER), "main")
    on_cpu = jax.jit(program)(DATA, KERNEL)
    chex.assert_trees_all_close(on_cpu, legal(DATA, KERNEL), rtol=1e-4, atol=1e-5)
    chex.assert_trees_all_close(program(DATA, KERNEL), on_cpu, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("platform", PLATFORMS)
def test_texts_and_artifacts_are_for_the_platform_that_a_module_is_made_for(platform: str) -> None:
    legal = LegalizeOps(platform)(LAYER)
    assert ("stablehlo.convolution" in to_mlir(legal)) == (platform != "cpu")
    assert exported_function(legal, "main").platforms == (platform,)
    assert "stablehlo.convolution" not in to_mlir(LAYER)


def test_a_gpu_is_of_any_make_where_nobody_says() -> None:
    legal = LegalizeOps("gpu")(LAYER)
    assert legal.attrs["platform"] == "gpu"
    assert LegalizeOps("cuda")(legal) is LegalizeOps("rocm")(legal) is legal
    assert lowered(to_jax(legal, "main"), DATA, KERNEL, platforms=["rocm"])["convolution"] == 1
    with pytest.raises(LoweringError, match="made for gpu, but it is to run on tpu"):
        LegalizeOps("tpu")(legal)
