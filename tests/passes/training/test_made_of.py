"""Digests of what a training is made of, which tell it from others and do not depend on names."""

import optax
from parsing import parse_functions

from relaxjax.ir import IRModule
from relaxjax.optim import SGD, Adam, from_optax
from relaxjax.passes.training.made_of import with_digests

LOSS = """
    I.module_attrs({"input_num": 1, "param_num": 1, "state_num": 0})

    @R.function
    def backbone_loss(x: R.Tensor((4,), "float32"), w: R.Tensor((4,), "float16")):
        y = Module.helped(x)
        return R.sum(R.multiply(y, R.astype(w, "float32")))

    @R.function(private=True)
    def helped(x: R.Tensor((4,), "float32")) -> R.Tensor((4,), "float32"):
        return R.tanh(x)
"""


def digests(
    script: str = LOSS, optimizer: object = None, scale: object = None, masters: bool = True
) -> dict[str, str]:
    mod: IRModule = parse_functions(script)
    made = with_digests(mod, optimizer or Adam(0.1), scale, masters)  # type: ignore[arg-type]
    return dict(made.attrs["made_of"])


def test_they_are_of_the_loss_with_what_it_calls_and_of_the_optimizer() -> None:
    own = digests()
    assert sorted(own) == ["backbone_loss", "optimizer"]
    assert digests(LOSS.replace("y = ", "value = ").replace("(y, ", "(value, ")) == own
    other = digests(LOSS.replace("tanh", "sin"))
    assert other["backbone_loss"] != own["backbone_loss"]
    assert other["optimizer"] == own["optimizer"]


def test_all_that_an_update_does_counts() -> None:
    found = [
        digests(),
        digests(optimizer=Adam(0.2)),
        digests(optimizer=SGD(0.1)),
        digests(optimizer=from_optax(optax.sgd(optax.linear_schedule(0.1, 0.0, 10)))),
        digests(optimizer=from_optax(optax.sgd(optax.linear_schedule(0.1, 0.0, 20)))),
        digests(scale=8.0),
        digests(scale="dynamic"),
        digests(masters=False),
    ]
    assert len({one["optimizer"] for one in found}) == len(found)
    assert len({one["backbone_loss"] for one in found}) == 1
