"""A trainer at a glance: its layers, what they hold and cost, and the sums."""

import dataclasses
from textwrap import dedent
from typing import Any

import pytest
from parsing import parse_backbone
from small_models import classifier, counting, trainer_of

from relaxjax import TensorType
from relaxjax.losses import MSELoss
from relaxjax.ops.cost import function_cost
from relaxjax.optim import SGD, Adam
from relaxjax.training import LayerSummary, Trainer

MATRIX, VECTOR = 'R.Tensor((8, 8), "float32")', 'R.Tensor((8,), "float32")'


def stacked(roll: bool) -> Trainer:
    """Three equal layers and a head, the layers in a loop or one by one."""
    params = ", ".join(f"w{i}: {MATRIX}, b{i}: {VECTOR}" for i in range(3))
    layer = "h{1} = R.add(h{0}, R.tanh(R.add(R.matmul(h{0}, w{0}), b{0})))"
    lines = ["h0 = R.sin(x)", *(layer.format(i, i + 1) for i in range(3)), "y = R.matmul(h3, head)"]
    params = f'x: R.Tensor((4, 8), "float32"), {params}, head: {MATRIX}'
    model = parse_backbone("\n".join(lines), params, param_num=7)
    types = [TensorType((4, 8), "float32")] * 2
    return trainer_of(model, MSELoss(), SGD(0.1), *types, roll_blocks=roll)


def test_layers_and_sums_stand_in_a_table() -> None:
    summary = classifier().summary()
    assert str(summary) == dedent("""\
        layer  gives          parameters  numbers  bytes  forward   moves
        lv2    float32[8, 7]  w0, b0      42       168 B  672 flop  1.9 KiB
        out    float32[8, 3]  w1, b1      24       96 B   360 flop  632 B

        66 numbers in parameters: 264 B, model states: 0 B, optimizer states: 8 B
        forward: 1.0 kflop, training step: 3.4 kflop""")
    assert repr(summary) == (
        "<ModelSummary of 2 layers: 66 numbers in parameters, 3.4 kflop a training step>"
    )


def test_the_layers_add_up_to_the_model() -> None:
    trainer = classifier(Adam(0.1))
    summary = trainer.summary()
    cost = function_cost(trainer.mod["backbone"], trainer.mod)
    assert cost is not None
    assert sum(layer.flops or 0 for layer in summary.layers) == summary.forward_flops == cost.flops
    assert sum(layer.numbers for layer in summary.layers) == summary.param_numbers
    assert sum(layer.bytes for layer in summary.layers) == summary.param_bytes
    assert summary.optimizer_bytes > 2 * summary.param_bytes  # two moments of each parameter
    assert (summary.step_flops or 0) > 2 * cost.flops


def test_a_batch_of_any_size_counts_as_one_sample() -> None:
    summary = counting().summary()
    (layer,) = summary.layers
    assert layer.params == ("w",)
    assert summary.state_bytes == 4
    assert summary.symbols == ("n",)
    assert str(summary).endswith("forward: 5 flop, training step: 22 flop, n = 1")


def test_a_loop_over_layers_is_one_layer_with_the_cost_of_all() -> None:
    usual, loop = (stacked(roll).summary() for roll in (False, True))
    assert [layer.params for layer in usual.layers] == [
        ("w0", "b0"), ("w1", "b1"), ("w2", "b2"), ("head",),
    ]  # fmt: skip
    body, head = loop.layers
    assert body.params == ("w0_stack", "b0_stack")
    assert body.flops == sum(layer.flops or 0 for layer in usual.layers[:3])
    assert head == usual.layers[3]
    assert loop.param_numbers == usual.param_numbers


def test_what_is_computed_of_parameters_counts_in_the_layer_that_reads_it() -> None:
    body = """
        turned = R.permute_dims(second)
        twice = R.add(turned, turned)
        y = R.matmul(x, first)
        out = R.add(R.add(R.add(R.add(R.matmul(y, twice), a), b), c), d)
    """
    vectors: dict[str, Any] = dict.fromkeys("abcd", (8,))
    model = parse_backbone(body, param_num=6, x=(4, 8), first=(8, 8), second=(8, 8), **vectors)
    types = [TensorType((4, 8), "float32")] * 2
    summary = trainer_of(model, MSELoss(), SGD(0.1), *types).summary()
    assert [layer.params for layer in summary.layers] == [
        ("first",), ("second", "a", "b", "c", "d"),
    ]  # fmt: skip
    assert summary.layers[1].flops == 64 + 2 * 4 * 8 * 8 + 4 * 32
    assert "second, a, b, c and 1 more" in str(summary)


def test_a_layer_may_give_a_tuple() -> None:
    body = "thin = R.nn.dropout(R.matmul(x, first), rate=0.5)\nout = R.matmul(thin[0], second)"
    model = parse_backbone(body, param_num=2, x=(4, 8), first=(8, 8), second=(8, 4))
    types = [TensorType((4, 4), "float32")] * 2
    first, second = trainer_of(model, MSELoss(), SGD(0.1), *types).summary().layers
    assert (first.gives, second.gives) == ("(float32[4, 8], float32[4, 8])", "float32[4, 4]")


def test_a_cost_that_is_not_known_is_a_question_mark() -> None:
    summary = classifier().summary()
    unknown = LayerSummary("y", "float32[2]", (), 0, 0, None, None)
    shown = str(dataclasses.replace(summary, layers=(unknown,), step_flops=None))
    assert shown.splitlines()[1].split() == ["y", "float32[2]", "-", "0", "0", "B", "?", "?"]
    assert "training step: ?" in shown


@pytest.mark.parametrize("name", ["summary", "trainer"])
def test_a_notebook_gets_it_as_an_escaped_table(name: str) -> None:
    trainer = classifier()
    summary = trainer.summary()
    layer = dataclasses.replace(summary.layers[0], name="</script><b>")
    page = {
        "summary": dataclasses.replace(summary, layers=(layer,))._repr_html_(),
        "trainer": trainer._repr_html_(),
    }[name]
    assert "<table " in page
    assert "<td>w0, b0</td>" in page
    assert "<b>" not in page
    assert "&lt;" in page  # of the name of the layer, or of the trainer's own text
