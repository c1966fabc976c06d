"""The attention of cuDNN that a JAX program asks for by name, as attention that is written out.

    jax.nn.dot_product_attention(q, k, v, implementation="cudnn")

The IR cannot hold such a call. It reads what the call computes, in XLA's form, which is raised like
any other attention: where cuDNN is worth it, the operator of that takes cuDNN's by itself.
"""

from typing import Any

import jax
from jax.extend import core

from .unsupported import without_form

CUDNN_ATTENTION = "dot_product_attention_fwd_wrapper"
_CAUSAL = ("CAUSAL", "PADDING_CAUSAL")
_MASKS = ("NO_MASK", "PADDING", *_CAUSAL)


def is_of_cudnn(eqn: Any) -> bool:
    """Whether an equation calls JAX's function of cuDNN's attention and of its derivative."""
    if eqn.primitive.name != "custom_vjp_call":
        return False
    return [one.primitive.name for one in eqn.params["call_jaxpr"].jaxpr.eqns] == [CUDNN_ATTENTION]


def attention_written_out(eqn: Any) -> core.ClosedJaxpr:
    """What a call of cuDNN computes, as a program of all its operands."""
    params = eqn.params
    avals = [var.aval for var in eqn.invars]
    _, _, _, _, _, _, *packed = avals
    if params["dropout_rate"] or len(eqn.outvars) > 1 or any(aval.size for aval in packed):
        raise without_form(
            eqn, "cuDNN's attention is read without dropout, residuals and packed sequences"
        )
    mask, length = params["mask_type"].name, params["sliding_window_length"]
    if mask not in _MASKS:
        raise without_form(eqn, f"cuDNN's attention under a mask of the kind {mask} is not read")
    axes = (0, 2, 1, 3) if params["layout"] else (0, 1, 2, 3)

    def written_out(q: Any, k: Any, v: Any, bias: Any, *lengths: Any) -> list[Any]:
        q_lengths, kv_lengths, *_ = (x if x.size else None for x in lengths)
        q, k, v = (x.transpose(axes) for x in (q, k, v))
        found = jax.nn.dot_product_attention(
            q,
            k,
            v,
            bias=bias if bias.size else None,
            scale=params["scale"],
            is_causal=mask in _CAUSAL,
            query_seq_lengths=q_lengths,
            key_value_seq_lengths=kv_lengths,
            local_window_size=None if length is None else (length - 1, 0),
            implementation="xla",
        )
        return [found.transpose(axes)]

    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        program = jax.make_jaxpr(written_out)(*avals)
    eqns = [one.replace(source_info=eqn.source_info) for one in program.jaxpr.eqns]
    return core.ClosedJaxpr(program.jaxpr.replace(eqns=eqns), program.consts)
