"""Attention on a GPU: when cuDNN computes it, and that it is asked for the same thing.

No GPU is needed: what cuDNN would be asked for is computed by XLA here.
"""

import re
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from parsing import parse_main

import relaxjax
from relaxjax.ir.op import get_op
from relaxjax.lowering import exported_function
from relaxjax.ops.nn import accelerated_attention
from relaxjax.ops.nn.accelerated_attention import (
    VARIABLE,
    Gpu,
    Wanted,
    gpu_here,
    has_program,
    takes_cudnn,
)
from relaxjax.ops.platform import lowering_for
from relaxjax.passes import LegalizeOps

AMPERE, HOPPER = (8, 0), (9, 0)
PLAIN: dict[str, Any] = {"scale": None, "causal_mask": None, "window_size": None}
WANTED = Wanted("bfloat16", 256, 256, 64, 64, None, None, biased=False)
CAUSAL, LAST = {"causal_mask": "TopLeft"}, {"causal_mask": "BottomRight"}

DECIDED: dict[str, tuple[dict[str, Any], Any, bool]] = {
    "half precision": ({}, AMPERE, True),
    "the other half precision": ({"dtype": "float16"}, HOPPER, True),
    "an older GPU": ({}, (7, 5), False),
    "full precision": ({"dtype": "float32"}, HOPPER, False),
    "a bias": ({"biased": True}, HOPPER, False),
    "heads of another size": ({"width": 60, "depth": 60}, HOPPER, False),
    "wide heads": ({"width": 256, "depth": 256}, HOPPER, True),
    "wide heads on an older GPU": ({"width": 256, "depth": 256}, AMPERE, False),
    "too wide heads": ({"width": 264, "depth": 264}, HOPPER, False),
    "values of another size": ({"depth": 32}, HOPPER, False),
    "an unknown length": ({"queries": "n"}, HOPPER, False),
    "nothing": ({"keys": 0}, HOPPER, False),
    "causal": (CAUSAL, AMPERE, True),
    "causal, more queries": ({**CAUSAL, "queries": 512}, AMPERE, True),
    "causal at the last": (LAST, AMPERE, True),
    "causal at the last, more keys": ({**LAST, "keys": 512}, AMPERE, False),
    "a window": ({**CAUSAL, "window_size": 8}, AMPERE, True),
    "a window, more queries": ({**CAUSAL, "window_size": 8, "queries": 512}, AMPERE, False),
    "a window that looks ahead": ({"window_size": 8}, AMPERE, False),
}


@pytest.mark.parametrize(("change", "capability", "taken"), DECIDED.values(), ids=DECIDED)
def test_what_cudnn_computes(change: dict[str, Any], capability: Any, taken: bool) -> None:
    assert takes_cudnn(WANTED._replace(**change), capability) == taken


def gpu(capability: str = "9.0", make: str = "cuda") -> Any:
    client = SimpleNamespace(platform_version=f"{make} 12")
    return SimpleNamespace(platform="gpu", client=client, compute_capability=capability)


@pytest.mark.parametrize(
    ("asked", "device", "count", "found"),
    [
        ("", gpu(), 1, Gpu(HOPPER, is_tried=True)),
        ("", gpu(), 2, None),
        ("on", gpu(), 2, Gpu(HOPPER, is_tried=False)),
        ("Off", gpu(), 1, None),
        ("on", SimpleNamespace(platform="cpu"), 1, None),
        ("", gpu("gfx90a", "rocm"), 1, None),
    ],
)
def test_who_computes_attention(
    asked: str, device: Any, count: int, found: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(VARIABLE, asked)
    monkeypatch.setattr(accelerated_attention, "default_device", lambda: device)
    monkeypatch.setattr(jax, "device_count", lambda: count)
    assert gpu_here() == found


def test_a_variable_that_says_something_else(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "cudnn")
    with pytest.raises(ValueError, match="is 'cudnn': it must be `on` or `off`"):
        gpu_here()


def test_what_cudnn_has_no_program_for_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no cuDNN here, and JAX says so when a program is tried."""
    monkeypatch.setattr(accelerated_attention, "gpu_here", lambda: Gpu(HOPPER, is_tried=True))
    tried = list[Wanted]()

    def noted(wanted: Wanted, heads: int, of_keys: int) -> bool:
        tried.append(wanted)
        return has_program(wanted, heads, of_keys)

    monkeypatch.setattr(accelerated_attention, "has_program", noted)
    forward, backward = rules(**PLAIN)
    for length in 128, 1024:
        given = jax.ShapeDtypeStruct((1, length, 2, 8), "bfloat16")
        with lowering_for("cuda"):
            text = str(jax.make_jaxpr(lambda g, *x: (forward(*x), backward(g, *x)))(*[given] * 4))
        assert "dot_product_attention" not in text
        assert "dot_general" in text
    assert {wanted.queries for wanted in tried} == {1024}


def test_numbers_of_heads_that_are_not_known_are_not_tried() -> None:
    assert not has_program(WANTED, "heads", 2)


def test_what_is_written_out_calls_no_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """`jax.export` refuses such calls, and another machine may have no cuDNN."""
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setattr(accelerated_attention, "default_device", gpu)
    body = "y = R.nn.attention(q, q, q)\nreturn y"
    mod = parse_main(body, 'q: R.Tensor((1, 16, 2, 8), "bfloat16")')
    assert exported_function(mod, "main", ["cuda"]).serialize()


def test_a_gradient_of_a_gradient_calls_no_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """The inner one becomes a program of the IR, which has no form for such calls."""
    monkeypatch.setenv(VARIABLE, "on")
    monkeypatch.setattr(accelerated_attention, "default_device", gpu)

    def loss(q: Any) -> Any:
        return (jax.nn.dot_product_attention(q, q, q).astype("float32") ** 2).sum()

    def of_slopes(q: Any) -> Any:
        return (relaxjax.grad(loss)(q).astype("float32") ** 2).sum()

    with lowering_for("cuda"), jax.numpy_dtype_promotion("standard"):
        mod = relaxjax.value_and_grad(of_slopes).module(jnp.ones((1, 4, 2, 8), "bfloat16"))
    assert "dot_product_attention" not in mod.script()


def rules(**attrs: Any) -> list[Callable[..., Any]]:
    """Attention and its backward operator, as they are lowered."""
    names = ("relax.nn.attention", "relax.grad.attention_backward")
    found: list[Any] = [get_op(name).lower for name in names]
    return [partial(lower, **attrs) for lower in found]


def drawn(queries: int, heads: int) -> list[Any]:
    """The adjoint of the result, and query, key and value."""
    shapes = [(2, queries, heads, 8), (2, queries, heads, 8), (2, 12, 2, 8), (2, 12, 2, 8)]
    random = np.random.default_rng(0)
    return [jnp.asarray(random.normal(size=shape), "bfloat16") for shape in shapes]


def by_xla(calls: list[Any]) -> Callable[..., Any]:
    """JAX's attention by XLA, where cuDNN is asked for; each call is noted."""
    attention = jax.nn.dot_product_attention

    def attended(*arrays: Any, implementation: str, **options: Any) -> Any:
        calls.append(implementation)
        return attention(*arrays, implementation="xla", **options)

    return attended


def test_what_was_traced_before_it_was_asked_for_is_not_taken(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A call is traced once for its attributes and types, and for who computes attention."""
    body = "y = R.nn.attention(q, q, q)\nreturn y"
    mod = parse_main(body, 'q: R.Tensor((1, 16, 2, 8), "bfloat16")')
    calls = list[str]()
    monkeypatch.setattr(jax.nn, "dot_product_attention", by_xla(calls))
    monkeypatch.setattr(accelerated_attention, "default_device", gpu)
    for asked, called in ("off", False), ("on", True):
        monkeypatch.setenv(VARIABLE, asked)
        with lowering_for("cuda"), jax.numpy_dtype_promotion("standard"):
            LegalizeOps()(mod)
        assert bool(calls) == called


@pytest.mark.parametrize(
    ("queries", "heads", "options"),
    [
        (12, 2, {"scale": 0.3}),
        (20, 2, CAUSAL),
        (12, 4, {**CAUSAL, "window_size": 5}),
        (12, 2, {**LAST, "window_size": 1}),
    ],
)
def test_cudnn_is_asked_for_what_we_compute(
    queries: int, heads: int, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Forward, backward, and the derivative of that, of which cuDNN has none."""
    g, *arrays = drawn(queries, heads)
    calls = list[str]()
    forward, backward = rules(**PLAIN | options)

    def computed() -> Any:
        with lowering_for("cuda"):
            slope = jax.jvp(backward, (g, *arrays), (g, *arrays))
            return forward(*arrays), backward(g, *arrays), slope

    expected = computed()
    monkeypatch.setattr(accelerated_attention, "gpu_here", lambda: Gpu(HOPPER, is_tried=False))
    monkeypatch.setattr(jax.nn, "dot_product_attention", by_xla(calls))
    with jax.numpy_dtype_promotion("standard"):  # which JAX's form by XLA needs
        found = computed()
    assert calls
    assert set(calls) == {"cudnn"}
    chex.assert_trees_all_equal_dtypes(found, expected)
    wide = jax.tree.map(lambda x: x.astype("float32"), (found, expected))
    chex.assert_trees_all_close(*wide, rtol=3e-2, atol=3e-2)


def test_a_bias_is_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerated_attention, "gpu_here", lambda: Gpu(HOPPER, is_tried=False))
    lower: Any = get_op("relax.nn.attention_bias").lower
    arrays = [jax.ShapeDtypeStruct(x.shape, x.dtype) for x in drawn(12, 2)[1:]]
    bias = jax.ShapeDtypeStruct((1, 1, 1, 12), "bfloat16")
    with lowering_for("cuda"):
        program = jax.make_jaxpr(partial(lower, **PLAIN))(*arrays, bias)
    assert "cudnn" not in str(program)


def test_it_is_lowered_to_calls_of_cudnn(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX asks for the versions of cuDNN and of the device, which are made up here."""
    inside = "jax._src.cudnn.fused_attention_stablehlo"
    monkeypatch.setattr(f"{inside}.check_cudnn_version", lambda: 91100)
    monkeypatch.setattr(f"{inside}.check_compute_capability", lambda capability: True)
    monkeypatch.setattr(f"{inside}.is_cuda_compute_capability_equal", lambda capability: False)
    monkeypatch.setattr(accelerated_attention, "gpu_here", lambda: Gpu(HOPPER, is_tried=False))
    forward, backward = rules(**PLAIN | CAUSAL)
    with lowering_for("cuda"):
        traced = jax.jit(lambda g, *x: (forward(*x), backward(g, *x))).trace(*drawn(12, 2))
        text = traced.lower(lowering_platforms=("cuda",)).as_text()
    calls = re.findall(r"custom_call @(__cudnn\$fmha\w*)", text)
    assert any("Backward" in call for call in calls), calls
    assert "dot_general" not in text
