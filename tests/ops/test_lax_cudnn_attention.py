"""Attention that a program of JAX asks cuDNN for, read as attention."""

from functools import partial
from typing import Any

import chex
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax._src.cudnn import fused_attention_stablehlo as by_cudnn

import relaxjax
from relaxjax import from_jax
from relaxjax.ops.lax import UnsupportedPrimitiveError
from relaxjax.passes import raising_report

Q = jnp.asarray(np.random.default_rng(0).normal(size=(2, 8, 2, 8)), "bfloat16")
LENGTHS = jnp.array([3, 8], "int32")
KINDS: dict[str, dict[str, Any]] = {
    "all": {},
    "causal": {"is_causal": True},
    "window": {"is_causal": True, "local_window_size": (2, 0)},
    "lengths": {"query_seq_lengths": LENGTHS, "key_value_seq_lengths": LENGTHS},
    "mask": {"mask": jnp.asarray(np.tril(np.ones((1, 1, 8, 8), bool), 1))},
    "bias": {"bias": jnp.ones((1, 2, 8, 8), "bfloat16"), "scale": 0.5},
}


@pytest.fixture
def cudnn_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """JAX traces a call of cuDNN as on a machine that has it."""
    monkeypatch.setattr(by_cudnn, "check_cudnn_version", lambda: 91000)


def attended(q: jax.Array, implementation: Any = "cudnn", **options: Any) -> jax.Array:
    found = jax.nn.dot_product_attention(q, q, q, implementation=implementation, **options)
    return jnp.sum(found.astype("float32") ** 2)


@pytest.mark.usefixtures("cudnn_there")
@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_xla_computes(kind: str) -> None:
    options = KINDS[kind]
    by_xla = partial(attended, implementation="xla", **options)
    with jax.numpy_dtype_promotion("standard"):
        found = jax.jit(relaxjax.value_and_grad(partial(attended, **options)))(Q)
        expected = jax.jit(relaxjax.value_and_grad(by_xla))(Q)
        theirs = jax.jit(jax.value_and_grad(by_xla))(Q)
    chex.assert_trees_all_close(found, expected, rtol=1e-2, atol=1e-2)
    chex.assert_trees_all_close(found, theirs, rtol=0.1, atol=0.1)


@pytest.mark.usefixtures("cudnn_there")
def test_it_is_raised_from_the_line_of_the_user() -> None:
    (line,) = raising_report(from_jax(attended, Q)).lines
    assert "relax.nn.attention" in line.raised
    assert line.span is not None
    assert line.span.file == __file__


@pytest.mark.usefixtures("cudnn_there")
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_a_mask_is_raised(dtype: str) -> None:
    """JAX hands it on as numbers to add, which are finite."""
    q, mask = Q.astype(dtype), jnp.ones((2, 1, 8, 8), bool)
    module = from_jax(lambda q, mask: attended(q, mask=mask), q, mask)
    (line,) = raising_report(module).lines
    assert "relax.nn.attention_bias" in line.raised


@pytest.mark.usefixtures("cudnn_there")
def test_other_layouts_are_turned() -> None:
    def turned(q: jax.Array) -> jax.Array:
        found: Any = by_cudnn.dot_product_attention(q, q, q, scale=0.5, qkv_layout="BNTH")
        return found  # type: ignore[no-any-return]  # it may be several results, by its types

    q = Q.swapaxes(1, 2)
    with jax.numpy_dtype_promotion("standard"):
        expected = jax.nn.dot_product_attention(Q, Q, Q, scale=0.5).swapaxes(1, 2)
    found = relaxjax.to_jax(from_jax(turned, q), "main")(q)
    chex.assert_trees_all_close(
        found.astype("float32"), expected.astype("float32"), rtol=0.05, atol=0.05
    )


@pytest.mark.usefixtures("cudnn_there")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dropout_rate": 0.5}, "is read without dropout, residuals and packed sequences"),
        ({"mask_type": by_cudnn.MaskType.ALIBI}, "under a mask of the kind ALIBI is not read"),
    ],
)
def test_what_is_not_read(options: dict[str, Any], message: str) -> None:
    call = partial(by_cudnn.dot_product_attention, Q, Q, **options)
    with pytest.raises(UnsupportedPrimitiveError, match=message):
        from_jax(call, Q)


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="a GPU has cuDNN")
@pytest.mark.parametrize("read", [from_jax, lambda loss, q: relaxjax.grad(loss)(q)])
def test_where_jax_has_no_cudnn_the_error_says_that_it_need_not_be_asked_for(read: Any) -> None:
    with pytest.raises(RuntimeError, match="cuDNN is not detected") as caught:
        read(attended, Q)
    assert 'Leave out `implementation="cudnn"`' in caught.value.__notes__[-1]
