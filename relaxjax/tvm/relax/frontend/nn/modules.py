"""The layers."""

from collections.abc import Sequence
from typing import Any, ClassVar

from . import op
from .core import Module, Parameter, Tensor


class Identity(Module):
    """x."""

    def forward(self, x: Tensor) -> Tensor:
        return x


class ReLU(Module):
    """max(x, 0)."""

    def forward(self, x: Tensor) -> Tensor:
        return op.relu(x)


class SiLU(Module):
    """x sigmoid(x)."""

    def forward(self, x: Tensor) -> Tensor:
        return op.silu(x)


class GELU(Module):
    """x times the share of a normal distribution that lies below x."""

    def forward(self, x: Tensor) -> Tensor:
        return op.gelu(x)


class Linear(Module):
    """x W^T + b."""

    def __init__(
        self,
        in_features: int | str,
        out_features: int | str,
        bias: bool = True,
        dtype: str | None = None,
        out_dtype: str | None = None,
    ) -> None:
        self.in_features, self.out_features, self.out_dtype = in_features, out_features, out_dtype
        self.weight = Parameter((out_features, in_features), dtype)
        self.bias = Parameter((out_features,), out_dtype or dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        product = op.matmul(x, op.permute_dims(self.weight), out_dtype=self.out_dtype)
        return product if self.bias is None else product + self.bias

    def to(self, dtype: str | None = None) -> None:
        self.weight.to(dtype)
        if self.bias is not None and self.out_dtype is None:
            self.bias.to(dtype)


class _Convolution(Module):
    """What convolutions share: kernels in the order O, I, places, and a bias."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sequence[int],
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        dtype: str | None,
    ) -> None:
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.padding = kernel_size, stride, padding
        self.dilation, self.groups = dilation, groups
        self.weight = Parameter((out_channels, in_channels // groups, *kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    @property
    def _options(self) -> tuple[Any, Any, Any, int]:
        return self.stride, self.padding, self.dilation, self.groups


class Conv1D(_Convolution):
    """A convolution over (batch, channels, width)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        options = stride, padding, dilation, groups, bias, dtype
        super().__init__(in_channels, out_channels, [kernel_size], *options)

    def forward(self, x: Tensor) -> Tensor:
        return op.conv1d(x, self.weight, self.bias, *self._options)


class _ConvolutionInLayout(_Convolution):
    """A convolution over `count` axes of data in a layout."""

    count: ClassVar[int]
    layout: ClassVar[str]  # where none is given

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: list[int] | int,
        stride: list[int] | int = 1,
        padding: list[int] | int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
        data_layout: str | None = None,
    ) -> None:
        sizes = [kernel_size] * self.count if isinstance(kernel_size, int) else list(kernel_size)
        options = stride, padding, dilation, groups, bias, dtype
        super().__init__(in_channels, out_channels, sizes, *options)
        self.data_layout = data_layout or self.layout

    def forward(self, x: Tensor) -> Tensor:
        convolution = op.conv2d if self.count == 2 else op.conv3d
        arrays = x, self.weight, self.bias
        return convolution(*arrays, *self._options, data_layout=self.data_layout)


class Conv2D(_ConvolutionInLayout):
    """A convolution of images."""

    count, layout = 2, "NCHW"


class Conv3D(_ConvolutionInLayout):
    """A convolution of volumes."""

    count, layout = 3, "NCDHW"


class ConvTranspose1D(Module):
    """The transpose of a convolution over (batch, channels, width)."""

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: int,
        stride: int = 1,
        padding: int = 0,
        output_padding: int = 0,
        dilation: int = 1,
        groups: int = 1,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.in_channels, self.out_channels = in_channels, out_channels
        self.stride, self.padding, self.output_padding = stride, padding, output_padding
        self.dilation, self.groups = dilation, groups
        self.weight = Parameter((in_channels, out_channels // groups, kernel_size), dtype)
        self.bias = Parameter((out_channels,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        options = self.stride, self.padding, self.output_padding, self.dilation, self.groups
        return op.conv1d_transpose(x, self.weight, self.bias, *options)


class LayerNorm(Module):
    """Layer normalisation over the last axis."""

    def __init__(
        self,
        normalized_shape: int,
        eps: float | None = 1e-5,
        elementwise_affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.normalized_shape, self.elementwise_affine = normalized_shape, elementwise_affine
        self.eps = 1e-5 if eps is None else eps
        self.weight = Parameter((normalized_shape,), dtype) if elementwise_affine else None
        self.bias = Parameter((normalized_shape,), dtype) if elementwise_affine else None

    def forward(self, x: Tensor) -> Tensor:
        return op.layer_norm(x, self.normalized_shape, self.weight, self.bias, self.eps)


class RMSNorm(Module):
    """Division by the root of the mean square over some axes."""

    def __init__(
        self,
        hidden_size: int,
        axes: int | list[int],
        epsilon: float = 1e-5,
        bias: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.axes, self.epsilon = axes, epsilon
        self.weight = Parameter((hidden_size,), dtype)
        self.bias = Parameter((hidden_size,), dtype) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        out = op.rms_norm(x, self.weight, self.axes, self.epsilon)
        return out if self.bias is None else out + self.bias


class GroupNorm(Module):
    """Normalisation of groups of channels."""

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        dtype: str | None = None,
    ) -> None:
        self.num_groups, self.num_channels, self.eps = num_groups, num_channels, eps
        self.weight = Parameter((num_channels,), dtype) if affine else None
        self.bias = Parameter((num_channels,), dtype) if affine else None

    def forward(self, x: Tensor, channel_axis: int = 1, axes: list[int] | None = None) -> Tensor:
        options = self.weight, self.bias, self.eps, channel_axis, axes
        return op.group_norm(x, self.num_groups, *options)


class Embedding(Module):
    """Rows of a table by their numbers."""

    def __init__(self, num: int | str, dim: int | str, dtype: str | None = None) -> None:
        self.num, self.dim = num, dim
        self.weight = Parameter((num, dim), dtype)

    def forward(self, x: Tensor) -> Tensor:
        if x.ndim == 1:
            return op.take(self.weight, x, axis=0)
        rows = op.take(self.weight, op.reshape(x, [-1]), axis=0)
        return op.reshape(rows, [*x.shape, self.weight.shape[1]])
