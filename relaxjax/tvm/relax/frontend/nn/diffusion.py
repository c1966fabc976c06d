"""The layers of diffusion models: embeddings of times, and attention with its projections."""

from typing import Any

from . import op
from .core import Module, ModuleList, Tensor
from .modules import GELU, GroupNorm, Linear, ReLU, SiLU

_ACTIVATIONS: dict[str, type[Module]] = {"silu": SiLU, "swish": SiLU, "gelu": GELU, "relu": ReLU}


class Timesteps(Module):
    """Sines and cosines of times."""

    def __init__(
        self, num_channels: int, flip_sin_to_cos: bool = False, downscale_freq_shift: float = 1
    ) -> None:
        self.num_channels, self.flip_sin_to_cos = num_channels, flip_sin_to_cos
        self.downscale_freq_shift = downscale_freq_shift

    def forward(self, x: Tensor) -> Tensor:
        options = self.num_channels, self.flip_sin_to_cos, self.downscale_freq_shift
        return op.get_timestep_embedding(x, *options)


class TimestepEmbedding(Module):
    """Two linear layers over what `Timesteps` gives, with a condition added before."""

    def __init__(
        self,
        in_channels: int,
        time_embed_dim: int,
        act_fn: str = "silu",
        out_dim: int | None = None,
        post_act_fn: str | None = None,
        cond_proj_dim: int | None = None,
    ) -> None:
        self.linear_1 = Linear(in_channels, time_embed_dim)
        self.cond_proj = None
        if cond_proj_dim is not None:
            self.cond_proj = Linear(cond_proj_dim, in_channels, bias=False)
        self.act = _activation(act_fn)
        self.linear_2 = Linear(time_embed_dim, out_dim or time_embed_dim)
        self.post_act = None if post_act_fn is None else _activation(post_act_fn)

    def forward(self, sample: Tensor, condition: Tensor | None = None) -> Any:
        if condition is not None:
            if self.cond_proj is None:
                raise ValueError("a TimestepEmbedding takes a condition where it has cond_proj_dim")
            sample = sample + self.cond_proj(condition)
        found = self.linear_2(self.act(self.linear_1(sample)))
        return found if self.post_act is None else self.post_act(found)


def _activation(name: str) -> Module:
    if name not in _ACTIVATIONS:
        raise ValueError(f"there is no activation {name!r}: there are {', '.join(_ACTIVATIONS)}")
    return _ACTIVATIONS[name]()


class Attention(Module):
    """Attention of a sequence to itself, or to another one, between linear layers."""

    def __init__(
        self,
        query_dim: int,
        cross_attention_dim: int | None = None,
        heads: int = 8,
        dim_head: int = 64,
        bias: bool = False,
        norm_num_groups: int | None = None,
        out_bias: bool = True,
        scale_qk: bool = True,
    ) -> None:
        inner, other = heads * dim_head, cross_attention_dim or query_dim
        self.heads, self.scale = heads, None if scale_qk else 1.0
        self.to_q = Linear(query_dim, inner, bias=bias)
        self.to_k = Linear(other, inner, bias=bias)
        self.to_v = Linear(other, inner, bias=bias)
        self.group_norm = None
        if norm_num_groups is not None:
            self.group_norm = GroupNorm(norm_num_groups, query_dim)
        self.to_out = ModuleList([Linear(inner, query_dim, bias=out_bias)])

    def forward(
        self,
        hidden_states: Tensor,
        encoder_hidden_states: Tensor | None = None,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> Any:
        """Of (batch, sequence, channels); the mask is added to the scores."""
        if self.group_norm is not None:
            hidden_states = self.group_norm(hidden_states, channel_axis=2, axes=[1])
        seen = hidden_states if encoder_hidden_states is None else encoder_hidden_states
        query, key, value = self.to_q(hidden_states), self.to_k(seen), self.to_v(seen)
        by_head = self._by_head(query), self._by_head(key), self._by_head(value)
        means = op.scaled_dot_product_attention(*by_head, attention_mask, scale=self.scale)
        return self.to_out(op.reshape(means, [*means.shape[:2], means.shape[2] * means.shape[3]]))

    def _by_head(self, part: Tensor) -> Tensor:
        batch, length, width = part.shape
        return op.reshape(part, [batch, length, self.heads, width // self.heads])
