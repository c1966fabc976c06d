"""What a loss says of itself must be of its own arguments, and in words that a Trainer knows."""

import pytest
from parsing import parse_functions

from relaxjax.passes import DescribeLoss

MOD = parse_functions("""
    @R.function
    def backbone_loss(x: R.Tensor((4,), "float32"), targets: R.Tensor((4,), "float32")):
        return R.mean(R.subtract(x, targets))

    @R.function
    def helped(y: R.Tensor((4,), "float32")):
        return R.tanh(y)
""")


def test_what_is_said_is_stated() -> None:
    mod = DescribeLoss(weights="targets", takes="log-probabilities")(MOD)
    assert mod.attrs["loss_weights"] == "targets"
    assert mod.attrs["loss_takes"] == "log-probabilities"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("target", "no function has such a parameter; did you mean `targets`"),
        ("y", "is no parameter of `backbone_loss`; there are `targets`, `x`"),
    ],
)
def test_weights_are_an_argument_of_the_loss(name: str, said: str) -> None:
    with pytest.raises(ValueError, match=f"`weights` names `{name}`, .*{said}"):
        DescribeLoss(weights=name)(MOD)


def test_what_a_loss_takes_is_one_of_two() -> None:
    match = "a loss takes 'probabilities' or 'log-probabilities', but `takes` is 'probability'"
    with pytest.raises(ValueError, match=match):
        DescribeLoss(takes="probability")(MOD)
