"""Networks of convolutions computed with their channels last on a CPU, forward and backward."""

import pytest
from parsing import parse_flow, parse_functions
from same_results import assert_same_results, calls_of
from whole_image_models import lenet, unet
from whole_residual_models import resnet18

from relaxjax.ir import Call, IRModule, TensorType
from relaxjax.ir.dims import Dim
from relaxjax.ir.op import get_op
from relaxjax.ir.walk import post_order
from relaxjax.passes import ChannelsLast, Gradient, LegalizeOps, SimplifyGradient

NETWORK = parse_flow(
    """
    y0 = R.nn.conv2d(x, stem, padding=1)
    normed = R.nn.batch_norm(
        y0, gamma, beta, R.zeros_like(beta), R.ones_like(beta), axis=1
    )
    y1 = R.nn.relu(normed[0])
    y2 = R.nn.max_pool2d(y1, pool_size=2, strides=2)
    y3 = R.nn.conv2d(y2, w, padding=1)
    y4 = R.nn.avg_pool2d(R.concat((y2, y3), axis=1), pool_size=2, strides=2)
    y5 = R.nn.conv2d_transpose(y4, up, strides=2)
    y6 = R.nn.conv2d(y5, depthwise, padding=1, groups=16)
    y7 = R.image.resize2d(R.nn.pad(y6, [0, 0, 0, 0, 1, 1, 1, 1]), size=(4, 4))
    pooled = R.mean(R.add(y7, R.expand_dims(beta, [0, 2, 3])), axis=[2, 3])
    loss = R.sum(R.multiply(pooled, pooled))
    """,
    x=(2, 3, 8, 8),
    stem=(16, 3, 3, 3),
    gamma=(16,),
    beta=(16,),
    w=(16, 16, 3, 3),
    up=(32, 16, 2, 2),
    depthwise=(16, 1, 3, 3),
)


def rearranged(module: IRModule, name: str = "main") -> list[tuple[Dim, ...] | None]:
    """The dimensions of what is rearranged, those of length 1 aside."""
    types = [call.args[0].ty for call in calls_of(module, "permute_dims", name)]
    dims = [ty.dims for ty in types if isinstance(ty, TensorType) and ty.dims is not None]
    return [d for d in dims if sum(length != 1 for length in d) > 1]


def layouts(call: Call) -> tuple[object, ...]:
    return tuple(call.attrs[key] for key in ("data_layout", "kernel_layout", "out_layout"))


def test_only_the_images_that_go_in_are_rearranged_backward_too() -> None:
    """Norms, pooling, resizing, padding, concat and means come along, and so do their adjoints."""
    changed = ChannelsLast("cpu")(NETWORK)
    assert rearranged(changed) == [(2, 3, 8, 8)]
    assert {layouts(call) for call in calls_of(changed, "nn.conv2d")} == {("NHWC", "OIHW", "NHWC")}
    assert ChannelsLast("cpu")(changed) is changed
    assert_same_results(NETWORK, changed)
    wanted = ["stem", "gamma", "beta", "w", "up", "depthwise"]
    before, after = (Gradient("main", wanted)(mod) for mod in (NETWORK, changed))
    after = SimplifyGradient()(after)
    depthwise = (2, 4, 4, 16, 1)  # its groups, as the batch of a convolution that is its adjoint
    assert rearranged(after, "main_adjoint") == [(2, 3, 8, 8), depthwise]
    assert_same_results(before, after, "main_adjoint")


def test_a_residual_network_rearranges_its_images_alone() -> None:
    module = resnet18("float32", widths=(16, 16, 16, 16), batch=2, size=16, stem_size=7).module
    changed = ChannelsLast("cpu")(module)
    assert rearranged(changed) == [(2, 3, 16, 16)]
    assert [param.ty for param in changed["main"].params] == [
        param.ty for param in module["main"].params
    ]


def test_a_function_that_keeps_its_images_puts_them_back() -> None:
    """The scores of a U-Net leave the layout where its loss takes classes at axis 1."""
    module = unet("float32", few=16).module
    assert rearranged(ChannelsLast("cpu")(module)) == [(2, 1, 8, 8), (2, 8, 8, 3)]


@pytest.mark.parametrize("target", ["cuda", "tpu"])
def test_other_platforms_choose_layouts_themselves(target: str) -> None:
    assert ChannelsLast(target)(NETWORK) is NETWORK


def test_networks_of_few_channels_stay() -> None:
    module = lenet("float32", widths=(6, 16, 20)).module
    assert ChannelsLast("cpu")(module) is module


def test_where_as_much_would_be_rearranged_as_is_computed_nothing_is() -> None:
    module = parse_flow(
        "y = R.nn.conv2d(x, w)\ngv = R.reshape(y, (2, 576))\nreturn gv",
        x=(2, 16, 8, 8),
        w=(16, 16, 3, 3),
    )
    assert ChannelsLast("cpu")(module) is module


def test_private_functions_with_convolutions_are_inlined() -> None:
    """Else each call would go in and out of the layout."""
    module = parse_functions("""
        @R.function
        def main(
            x: R.Tensor(("n", 16, 6, 6), "float32"), w: R.Tensor((16, 16, 3, 3), "float32")
        ):
            with R.dataflow():
                y = Module.block(x, w)
                z = Module.block(y, w)
                gv = R.mean(z, axis=[2, 3])
                R.output(gv)
            return gv

        @R.function(private=True)
        def block(
            x: R.Tensor(("n", 16, 6, 6), "float32"), w: R.Tensor((16, 16, 3, 3), "float32")
        ) -> R.Tensor(("n", 16, 6, 6), "float32"):
            with R.dataflow():
                y = R.nn.relu(R.nn.conv2d(x, w, padding=1))
                R.output(y)
            return y
        """)
    changed = ChannelsLast("cpu")(module)
    assert list(changed.relax_functions()) == ["main"]
    assert len(rearranged(changed)) == 1
    assert_same_results(module, changed)


def test_a_legalised_backward_program_rearranges_no_images_in_the_middle() -> None:
    """What lowerings write does not either, but to undo what stands there for groups."""
    legal = LegalizeOps("cpu")(SimplifyGradient()(Gradient("main")(ChannelsLast("cpu")(NETWORK))))
    calls = (e for e in post_order(legal["main_adjoint"]) if isinstance(e, Call))
    types = [call.args[0].ty for call in calls if call.op is get_op("lax.transpose")]
    moved = [ty.dims for ty in types if isinstance(ty, TensorType) and ty.dims]
    assert (2, 3, 8, 8) in moved
    assert not [d for d in moved if d[0] == 2 and 16 in d and len(d) == 4]
