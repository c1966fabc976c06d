"""Primitives that no operator of Relax lowers to, written as plain JAX: the program is the same."""

import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.extend.core import Primitive
from jax_reading import read_module
from written_programs import canonical, written

from relaxjax.ir.op import OPS
from relaxjax.lowering import LoweringError, to_jax, to_python
from relaxjax.ops.platform import asked_for_platform

X = np.random.default_rng(0).uniform(0.5, 2.0, size=(3, 3)).astype("float32")
SYMMETRIC = X @ X.T + 3 * np.eye(3, dtype="float32")
I = np.array([2, 0, 1], "int32")  # noqa: E741  # indices
B = X > 1
C = X + 1j * X.T
KEY = np.array([1, 2], "uint32")

PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "complex": (lambda c: lax.real(c * lax.conj(c)) + lax.imag(c), (C,)),
    "complex numbers": (lambda c: (c == c.T, c + (1 + 2j), lax.complex(c.real, c.imag)), (C,)),
    "bits": (lambda i: (i & 3, i | 3, i ^ 3, ~i, lax.population_count(i), lax.clz(i)), (I,)),
    "booleans": (lambda b: (b & b.T, b | b.T, b ^ b.T, ~b, b == b.T, b.astype("int32")), (B,)),
    "shifts": (lambda i: (i << 1, i >> 1, lax.shift_right_logical(i, 1)), (I,)),
    "special": (
        lambda x: (lax.lgamma(x), lax.digamma(x), lax.erfc(x), lax.erf_inv(x / 4), lax.cbrt(x)),
        (X,),
    ),
    "bessel": (lambda x: (lax.bessel_i0e(x), lax.bessel_i1e(x), lax.igamma(x, x)), (X,)),
    "incomplete beta": (lambda x: lax.betainc(x, x, x / 4), (X,)),
    "polygamma": (lambda x: (lax.polygamma(x, x), lax.zeta(x + 1, x), lax.igammac(x, x)), (X,)),
    "powers": (lambda x: (x**3, x**-2, x**0.5, lax.pow(x, x)), (X,)),
    "remainders": (lambda i: (lax.rem(i, 2), lax.div(i, 2), i % 2, i // 2), (I,)),
    "rounding": (lambda x: (lax.round(x), lax.round(x, lax.RoundingMethod.TO_NEAREST_EVEN)), (X,)),
    "precision": (
        lambda x: (lax.reduce_precision(x, 5, 10), jnp.matmul(x, x, precision="highest")),
        (X,),
    ),
    "neighbours": (lambda x: lax.nextafter(x, x + 1), (X,)),
    "cumulative": (
        lambda x: (lax.cumsum(x, 1, reverse=True), lax.cummax(x), lax.cummin(x), lax.cumprod(x)),
        (X,),
    ),
    "cumulative in logarithms": (lambda x: lax.cumlogsumexp(x, 1), (X,)),
    "sorting": (lambda x, i: lax.sort((i, x[0]), num_keys=2, is_stable=False), (X, I)),
    "sorting one": (lambda x: lax.sort(x, dimension=0), (X,)),
    "top": (lambda x: lax.top_k(x, 2), (X,)),
    "places": (lambda x: (lax.argmax(x, 1, jnp.int32), lax.argmin(x, 0, jnp.int32)), (X,)),
    "clamping": (lambda x: lax.clamp(0.7, x, 1.5), (X,)),
    "splitting": (lambda x: lax.split(x, (1, 2), axis=1), (X,)),
    "padding": (lambda x: lax.pad(x, 0.5, ((1, 2, 1), (-1, 0, 0))), (X,)),
    "slices": (lambda x: (x[1:, ::2], lax.rev(x, (0,)), lax.squeeze(x[:1], (0,))), (X,)),
    "slices at places": (
        lambda x, i: lax.dynamic_update_slice(
            x, lax.dynamic_slice(x, (i[0], i[1]), (2, 2), allow_negative_indices=False), (i[1], 0)
        ),
        (X, I),
    ),
    "gather": (lambda x, i: jnp.take(x, i, axis=1, mode="fill", fill_value=7.0), (X, I)),
    "gather within bounds": (lambda x, i: x[i, i], (X, I)),
    "scatter": (
        lambda x, i: (
            x.at[i].set(1.0),
            x.at[i].add(x, mode="drop"),
            x.at[i].mul(x, unique_indices=True),
            x.at[i].min(x),
            x.at[i].max(x),
        ),
        (X, I),
    ),
    "counting": (
        lambda: (
            lax.iota(jnp.int32, 5),
            lax.broadcasted_iota(jnp.float32, (2, 3), 1),
            lax.full((2, 3), 4, jnp.uint8),
        ),
        (),
    ),
    "bitcasts": (lambda x: lax.bitcast_convert_type(x, jnp.int32), (X,)),
    "choices": (
        lambda b, x: (lax.select(b, x, -x), lax.select_n(b.astype(jnp.int32), x, -x, x.T)),
        (B, X),
    ),
    "a select of three": (lambda i, x: lax.select_n(i[0], x, -x, x.T), (I, X)),
    "reductions": (
        lambda x, b, i: (
            lax.reduce_prod(x, (0,)),
            lax.reduce_and(b, (1,)),
            lax.reduce_or(b, (0, 1)),
            lax.reduce_xor(i, (0,)),
            lax.reduce_min(x, (1,)),
        ),
        (X, B, I),
    ),
    "windows": (
        lambda x: (
            lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "SAME"),
            lax.reduce_window(x, jnp.inf, lax.min, (2, 1), (2, 1), "VALID", (1, 2), (2, 1)),
            lax.reduce_window(x, 0.0, lax.add, (2, 2), (1, 1), "VALID"),
        ),
        (X,),
    ),
    "windows of integers": (
        lambda i, b: (
            lax.reduce_window(i, -(2**31), lax.max, (2,), (1,), "VALID"),
            lax.reduce_window(i, 2**31 - 1, lax.min, (2,), (1,), "VALID"),
        ),
        (I, B),
    ),
    "gradient of a pooling": (
        jax.grad(lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (1, 1), "VALID").sum()),
        (X,),
    ),
    "convolution": (
        lambda x: lax.conv_general_dilated(
            x[None, :, :, None],
            x[:2, :2, None, None],
            (1, 2),
            ((1, 0), (0, 2)),
            lhs_dilation=(1, 2),
            rhs_dilation=(2, 1),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        ),
        (X,),
    ),
    "convolution in one dimension": (
        lambda x: lax.conv_general_dilated(
            x[None], x[:, None], (1,), "SAME", feature_group_count=3
        ),
        (X,),
    ),
    "convolution in no dimension": (lambda x: lax.conv_general_dilated(x, x, (), ()), (X,)),
    "gradient of a convolution": (
        jax.grad(
            lambda x: (lax.conv(x[None, None], x[:2, :2][None, None], (1, 1), "SAME") ** 2).sum()
        ),
        (X,),
    ),
    "products": (lambda x: (x @ x, x @ x[0], x[0] @ x, x[0] @ x[0], x[None] @ x[None]), (X,)),
    "products of stacks": (lambda x: jnp.matmul(x[:, :, None], x[:, None]), (X,)),
    "contraction": (lambda x: lax.dot_general(x, x, (((0,), (1,)), ((), ()))), (X,)),
    "batched contraction": (lambda x: jnp.einsum("bij,bjk->bik", x[None], x[None]), (X,)),
    "contraction into a wider type": (
        lambda x: lax.dot(x.astype("bfloat16"), x.astype("bfloat16"), preferred_element_type="f4"),
        (X,),
    ),
    "transposition": (lambda x: lax.transpose(x[None], (2, 0, 1)), (X,)),
    "broadcasts": (
        lambda x: (
            lax.broadcast_in_dim(x, (2, 3, 3), (1, 2)),
            lax.expand_dims(x, (1,)),
            lax.broadcast_in_dim(x[:1], (3, 3), (0, 1)),
        ),
        (X,),
    ),
    "linear algebra": (
        lambda x, s: (
            lax.linalg.cholesky(s, symmetrize_input=False),
            lax.linalg.lu(x),
            lax.linalg.qr(x, full_matrices=False),
            lax.linalg.triangular_solve(s, x, left_side=True, lower=True),
        ),
        (X, SYMMETRIC),
    ),
    "eigenvalues": (lambda s: lax.linalg.eigh(s, symmetrize_input=False), (SYMMETRIC,)),
    "singular values": (
        lambda x: (lax.linalg.svd(x, full_matrices=False), lax.linalg.svd(x, compute_uv=False)),
        (X,),
    ),
    "decompositions": (
        lambda x: (lax.linalg.hessenberg(x), lax.linalg.schur(x), lax.linalg.tridiagonal(x)),
        (X,),
    ),
    "eigenvalues of any matrix": (lambda x: lax.linalg.eig(x), (X,)),
    "permutations": (lambda i: lax.linalg.lu_pivots_to_permutation(i, 3), (I,)),
    "solving": (lambda x: lax.linalg.tridiagonal_solve(x[0], x[1], x[2], x), (X,)),
    "fourier": (lambda x: (jnp.fft.fft(x), jnp.fft.irfft(x, 4)), (X,)),
    "random": (
        lambda k: jax.random.normal(jax.random.fold_in(jax.random.wrap_key_data(k), 3), (2,)),
        (KEY,),
    ),
    "random keys": (
        lambda k: (
            jax.random.key_data(jax.random.split(jax.random.wrap_key_data(k), (2, 2))),
            jax.random.bits(jax.random.wrap_key_data(k), (3,), "uint8"),
            jax.random.key_data(jax.random.key(k[0], impl="rbg")),
        ),
        (KEY,),
    ),
    "many random keys": (
        lambda k: jax.vmap(lambda key: jax.random.bits(key, (2,)))(
            jax.random.split(jax.random.wrap_key_data(k), 3)
        ),
        (KEY,),
    ),
    "gamma": (lambda k, x: jax.random.gamma(jax.random.wrap_key_data(k), x), (KEY, X)),
    "generator": (
        lambda k: lax.rng_bit_generator(jnp.concatenate([k, k]), (3,), jnp.uint32)[1],
        (KEY,),
    ),
    "names": (lambda x: checkpoint_name(x, "hidden") + 1, (X,)),
    "barriers": (lambda x: lax.optimization_barrier((x, x.T)), (X,)),
    "one barrier": (lambda x: lax.optimization_barrier(x), (X,)),
    "no gradient": (lambda x: lax.stop_gradient(x) * 2, (X,)),
    "scan": (lambda x: lax.scan(lambda c, y: (c * y, c + y), x[0], x), (X,)),
    "scan backwards": (
        lambda x: lax.scan(
            lambda c, y: (c * y + x[0], None), x[0], x, length=3, reverse=True, unroll=2
        ),
        (X,),
    ),
    "loop": (
        lambda x, i: lax.while_loop(
            lambda s: s[0] < i[0], lambda s: (s[0] + 1, s[1] * x), (i[1], x)
        ),
        (X, I),
    ),
    "counted loop": (lambda x: lax.fori_loop(0, 3, lambda i, y: y * x + i, x), (X,)),
    "loops of their own length": (
        lambda x: jax.vmap(lambda y: lax.while_loop(lambda z: z[0] < 9, lambda z: z * 2, y))(x),
        (X,),
    ),
    "folds": (
        lambda x: lax.reduce(
            (x, x * 2), (x[0, 0], x[0, 1]), lambda a, b: (a[0] + b[0], lax.max(a[1], b[1])), (0,)
        ),
        (X,),
    ),
    "branches": (lambda x, i: lax.switch(i[0], (jnp.sin, jnp.cos, jnp.tan), x), (X, I)),
    "two branches": (lambda x: lax.cond(x[0, 0] > 1, jnp.sin, lambda y: y * x.T, x), (X,)),
    "platforms": (
        lambda x: lax.platform_dependent(x, cpu=jnp.sin, tpu=jnp.cos, default=jnp.tan),
        (X,),
    ),
    "narrow floats": (
        lambda x: (x.astype("float8_e4m3fn").astype("float32"), x.astype("int4").astype("int32")),
        (X,),
    ),
    "narrow integers": (lambda x: x.astype("int4") + np.ones((3, 3), "int4"), (X,)),
    "constants": (
        lambda x: (
            x + np.arange(9, dtype="float32").reshape(3, 3),
            x * np.arange(27, dtype="float32").reshape(3, 3, 3)[1],
            x + np.full((3, 3), 0.1, "float32"),
            x * np.array([np.nan, np.inf, -np.inf], "float32")[None],
            lax.max(x, np.float32(0.3)),
        ),
        (X,),
    ),
    "two constants": (
        lambda x: (
            lax.add(np.full(3, 2, "float32"), np.arange(3, dtype="float32"))[None] + x,
            lax.sub(np.arange(20, dtype="float32"), np.arange(20, dtype="float32") * 3),
        ),
        (X,),
    ),
    "numbers on the left": (lambda x: (2 - x, 2 / x, x > 0.5, -0.0 + x, 1e-7 * x), (X,)),
    "unsigned numbers": (lambda k: (k + np.uint32(2**32 - 1), k * np.uint32(3), -k), (KEY,)),
}


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore:scatter inputs have incompatible types")
def test_the_program_is_the_same(name: str) -> None:
    function, args = PROGRAMS[name]
    mod = read_module(function, *args)
    main = inspect.unwrap(written(mod)["main"])
    with asked_for_platform():  # what runs has the axes of convolutions in another order
        expected = canonical(jax.make_jaxpr(to_jax(mod, "main"))(*args))
    assert canonical(jax.make_jaxpr(main)(*args)) == expected


def test_a_primitive_of_the_users_own_has_no_name_there() -> None:
    own = Primitive("users_own_square")
    own.def_impl(lambda x: x * x)
    own.def_abstract_eval(lambda x: x)
    match = (
        rf"`lax\.users_own_square` has no public name in JAX {jax.__version__}, so it cannot be "
        "written as plain JAX"
    )
    try:
        with pytest.raises(LoweringError, match=match):
            to_python(read_module(own.bind, X))
    finally:
        OPS.pop("lax.users_own_square", None)
