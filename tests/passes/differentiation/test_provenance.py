"""Where each line of a derivative comes from: comments at the ends of the lines."""

import re

import pytest
from parsing import parse_functions

from relaxjax.ir import BlockBuilder, IRModule, TensorType, Var, assert_structural_equal
from relaxjax.ir.op import get_op
from relaxjax.passes import (
    DecomposeOpsForTraining,
    Gradient,
    Jvp,
    LegalizeOps,
    Normalize,
    SimplifyGradient,
)
from relaxjax.script import from_source

MODULE = parse_functions("""
@R.function
def main(c: R.Tensor((), "bool"), x: R.Tensor((2, 3), "float32"), w: R.Tensor((3,), "float32")):
    y = R.multiply(x, w)
    if c:
        z = R.nn.softmax(y)
    else:
        z = R.sin(y)
    loss = R.sum(z)
    return loss
""")


def origins(text: str) -> dict[str, tuple[str, int]]:
    """The variable, and the line of the user's text, that each commented variable comes from."""
    pattern = r"^ *(\w+)(?:: [^#\n]*)? = [^#\n]*# from (\w+) at <script \w+>:(\d+)$"
    return {name: (of, int(line)) for name, of, line in re.findall(pattern, text, re.MULTILINE)}


def test_every_backward_binding_names_its_forward_binding_and_the_users_line() -> None:
    adjoint = Gradient("main")(MODULE)
    text = adjoint.script(provenance=True)
    found = origins(text)
    assert found["loss_adjoint"] == ("loss", 10)
    assert found["z_adjoint"] == ("loss", 10)
    assert found["y_adjoint"][1] in (5, 7, 9)
    assert found["x_adjoint"] == found["w_adjoint"] == ("y", 5)
    backward = text[text.index("loss_adjoint") : text.index("return (loss")].splitlines()
    plain = [line for line in backward if " = " in line and "# from" not in line]
    assert all("z_inputs_adjoint" in line for line in plain)  # the results of the two branches
    assert "  # from" not in text[: text.index("loss_adjoint")]


def test_the_text_with_comments_parses_back() -> None:
    for module in (Gradient("main")(MODULE), Jvp("main")(MODULE)):
        text = module.script(provenance=True)
        assert_structural_equal(from_source(text), module)
        assert text != module.script()


def test_tangents_come_from_their_variables() -> None:
    found = origins(Jvp("main")(MODULE).script(provenance=True))
    assert found["y_tangent"] == ("y", 5)
    assert found["loss_tangent"] == ("loss", 10)


@pytest.mark.parametrize(
    "change", [LegalizeOps(), Normalize(), SimplifyGradient(), DecomposeOpsForTraining("main")]
)
def test_passes_keep_it(change: object) -> None:
    assert callable(change)
    adjoint = change(Gradient("main")(MODULE))
    assert isinstance(adjoint, IRModule)
    found = origins(adjoint.script(provenance=True))
    assert {("y", 5), ("loss", 10)} <= set(found.values())


def test_a_program_without_source() -> None:
    builder = BlockBuilder()
    x = Var("x", TensorType((2,), "float32"))
    with builder.function("main", [x]):
        y = builder.emit(get_op("relax.exp")(x), "y")
        builder.emit_func_output(builder.emit(get_op("relax.sum")(y), "loss"))
    text = Gradient("main")(builder.get()).script(provenance=True)
    assert re.search(r"x_adjoint: .* = R.multiply\(y_adjoint, y\)  # from y$", text, re.MULTILINE)


def test_what_is_shown_says_it_unless_nobody_wants_it(capsys: pytest.CaptureFixture[str]) -> None:
    adjoint = Gradient("main")(MODULE)
    adjoint.show()
    assert capsys.readouterr().out == f"{adjoint.script(provenance=True)}\n"
    adjoint.show(provenance=False)
    assert capsys.readouterr().out == f"{adjoint.script()}\n"
    assert "# from loss" in adjoint._repr_html_()
    assert "# from loss" not in repr(adjoint)
