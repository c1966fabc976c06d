"""What PyTorch casts inside of `torch.autocast`: the regions say so, and not the operators.

The lists are those of PyTorch (`ATen/autocast_mode.h` and `autocast_mode.cpp`), by the names of
operators without their overloads.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from relaxjax.ir.expr import Expr
from relaxjax.ops.emit import call, dtype_of

from .errors import TorchImportError

_LOSSES = """
    binary_cross_entropy_with_logits cosine_embedding_loss hinge_embedding_loss huber_loss kl_div
    l1_loss margin_ranking_loss mse_loss multi_margin_loss multilabel_margin_loss nll_loss
    nll_loss2d poisson_nll_loss smooth_l1_loss soft_margin_loss triplet_margin_loss
"""
_PRODUCTS = """
    addbmm addmm baddbmm bmm conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d
    linalg_vecdot linear matmul mm prelu scaled_dot_product_attention
"""
# What is computed in the lower precision, what in float32, and what in the widest that it is given.
_LOWER = {
    "cpu": _PRODUCTS,
    "cuda": f"{_PRODUCTS} addmv addr chain_matmul convolution einsum gru_cell linalg_multi_dot"
    " lstm_cell mv rnn_relu_cell rnn_tanh_cell",
}
_FLOAT32 = {
    "cpu": f"""{_LOSSES}
        adaptive_avg_pool3d adaptive_max_pool3d avg_pool3d binary_cross_entropy cdist cholesky
        cholesky_inverse cholesky_solve cross_entropy_loss fft_fft fft_fft2 fft_fftn fft_hfft
        fft_ifft fft_ifft2 fft_ifftn fft_ihfft fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2
        fft_rfftn grid_sampler grid_sampler_2d grid_sampler_3d inverse linalg_cholesky linalg_eigh
        linalg_eigvalsh linalg_householder_product linalg_inv linalg_qr linalg_solve linalg_svd
        linalg_svdvals lu_solve max_pool3d max_unpool2d max_unpool3d nanquantile orgqr polar prod qr
        quantile reflection_pad1d reflection_pad2d replication_pad1d replication_pad2d
        replication_pad3d stft svd trace view_as_complex
    """,
    "cuda": f"""{_LOSSES}
        _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_nearest_exact1d
        _upsample_nearest_exact2d _upsample_nearest_exact3d acos asin cdist cosh cosine_similarity
        cumprod cumsum dist erfinv exp expm1 group_norm layer_norm linalg_matrix_norm
        linalg_vector_norm log log10 log1p log2 log_softmax logsumexp native_layer_norm norm pdist
        pow prod reciprocal renorm rms_norm rsqrt sinh softmax softplus sum tan upsample_bicubic2d
        upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d
        upsample_nearest3d upsample_trilinear3d
    """,
}
_WIDEST = {
    "cpu": "cat stack index_copy",
    "cuda": "addcdiv addcmul atan2 bilinear cross dot grid_sampler index_put scatter_add tensordot"
    " vdot",
}
# What is no operator of these lists, but made of products that are: so its result is narrow, too.
_OF_PRODUCTS = frozenset(("einsum", "tensordot", "inner", "chain_matmul", "linalg_multi_dot"))
_DEFAULTS = {"cpu": "bfloat16", "cuda": "float16"}
_CAST = ("float16", "bfloat16", "float32")  # float64 stays what it is


def _listed(lists: Mapping[str, str]) -> Mapping[str, frozenset[str]]:
    return {device: frozenset(names.split()) for device, names in lists.items()}


_LOWER_OF, _FLOAT32_OF, _WIDEST_OF = map(_listed, (_LOWER, _FLOAT32, _WIDEST))


@dataclass(frozen=True)
class Autocast:
    """A region in which tensors of a device are cast; `dtype` is None where that is turned off."""

    device: str
    dtype: str | None

    def cast(self, target: str, given: Mapping[str, Any], gives: str | None) -> Mapping[str, Any]:
        """The arguments of an operator as it takes them in this region; `gives` is its dtype."""
        dtype = self._dtype_for(target, given, gives)
        if dtype is None:
            return given
        return {name: _cast(value, dtype) for name, value in given.items()}

    def _dtype_for(self, target: str, given: Mapping[str, Any], gives: str | None) -> str | None:
        if self.dtype is None or not target.startswith("aten."):
            return None
        name = target.split(".")[1]
        if name in _LOWER_OF[self.device] or (name in _OF_PRODUCTS and gives == self.dtype):
            return self.dtype
        if name in _FLOAT32_OF[self.device]:
            return None if given.get("dtype") is not None else "float32"
        if name in _WIDEST_OF[self.device]:
            found = {dtype_of(one) for one in _tensors(given.values())}
            is_wide = "float32" in found or len(found & {"float16", "bfloat16", self.dtype}) > 1
            return "float32" if is_wide else self.dtype
        return None


def region(device: str, dtype: str | None, is_enabled: bool) -> Autocast:
    """The region of `torch.autocast(device, dtype, is_enabled)`."""
    if not is_enabled:
        return Autocast(device, None)
    if device not in _DEFAULTS:
        raise TorchImportError(
            f'torch.autocast("{device}") is not read, of which it is not known what it casts: '
            f"read are those of {' and '.join(_DEFAULTS)}; else export a program that holds the "
            "casts, by `program.run_decompositions()`"
        )
    return Autocast(device, dtype or _DEFAULTS[device])


def mend_of(found: str, wanted: str, is_inside: bool) -> str | None:
    """What is wrong with a program whose types are not those that its casts give."""
    lower = ("float16", "bfloat16")
    if is_inside and found in lower and wanted == "float32":
        return (
            "it was exported inside of `torch.autocast` by `strict=True`, which writes down the "
            "types of no autocast: export it with `strict=False`"
        )
    if is_inside and wanted in lower:
        return (
            "autocast casts inside of it: export a program that holds the casts, by "
            "`program.run_decompositions()`"
        )
    if not is_inside and found == "float32" and wanted in lower:
        return (
            "it was exported inside of `torch.autocast`, of which the program holds nothing: enter "
            "it in `forward`"
        )
    return None


def _tensors(values: Any) -> list[Expr]:
    flat = [one for value in values for one in (value if isinstance(value, list) else [value])]
    return [one for one in flat if isinstance(one, Expr) and dtype_of(one) in _CAST]


def _cast(value: Any, dtype: str) -> Any:
    if isinstance(value, list):
        return [_cast(one, dtype) for one in value]
    if isinstance(value, Expr) and dtype_of(value) in _CAST and dtype_of(value) != dtype:
        return call("astype", value, dtype)
    return value
