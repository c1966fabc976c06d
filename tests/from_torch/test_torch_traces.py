"""What stacks of exported operators tell of the code that ran them."""

from pathlib import Path

import pytest

from relaxjax.torch.traces import is_of_function

NET = 'File "/mine/net.py", line 9, in forward\n    return self.head(twice(self.body(x)))'
LAYER = '  File "/torch/nn/modules/linear.py", line 134, in forward\n    return F.linear(x)'
STATIC = '  File "/mine/twice.py", line 4, in forward\n    return x * 2'
SUPER = '  File "/mine/net.py", line 5, in forward\n    return super().forward(x)'
ONE_LINE = '  File "/mine/net.py", line 3, in forward\n    def forward(self, x): return twice(x)'
HELPER = '  File "/mine/net.py", line 7, in double\n    return x * 2'
STRICT = '  File "/torch/_dynamo/functional_export.py", line 243, in forward\n    res = root(x)\n'
FUNCTORCH = '  File "/torch/_functorch/autograd_function.py", line 890, in inner\n    outs = fwd(x)'
BRANCH = (
    '  File "<eval_with_key>.5", line 10, in forward\n    cond = torch.ops.higher_order.cond(x)'
)
CARETS = "\n           ^^^^^^^"
OUTER, INNER = "L__self__,,net.Net", "L__self__body,body,net.Body"


@pytest.mark.parametrize(
    ("frames", "modules", "wanted"),
    [
        ([NET, LAYER], [OUTER, INNER], False),
        ([NET, STATIC], [OUTER], True),
        ([NET, ONE_LINE, STATIC], [OUTER, INNER], True),
        ([NET, SUPER, STATIC], [OUTER, INNER], False),
        ([NET, HELPER], [OUTER], False),
        ([NET, BRANCH], [OUTER], False),
        ([NET, HELPER, STATIC], [OUTER], True),
        ([STRICT, NET + CARETS], [OUTER], False),
        ([STRICT, NET + CARETS, FUNCTORCH, STATIC], [OUTER, INNER], True),
        ([NET.partition("\n")[0], HELPER], [OUTER], False),
        ([NET.partition("\n")[0], STATIC.partition("\n")[0]], [OUTER], True),
        ([NET, STATIC], [], False),
        ([], [OUTER], False),
    ],
)
def test_what_runs_inside_of_a_function(
    frames: list[str], modules: list[str], wanted: bool
) -> None:
    assert is_of_function("\n".join(frames), ";".join(modules)) is wanted


@pytest.mark.parametrize(
    ("decorators", "wanted"),
    [
        ("@staticmethod", True),
        ("@staticmethod\n    @torch.amp.custom_fwd", True),
        ("@torch.no_grad()", False),
        ("", False),
    ],
)
def test_modules_that_are_no_part_of_the_model(
    tmp_path: Path, decorators: str, wanted: bool
) -> None:
    """They are not among the modules either, and what they do has its own gradient."""
    file = tmp_path / "act.py"
    text = f"class Twice:\n    {decorators}\n    def forward(x, y):\n        return x * 2\n"
    file.write_text(text)
    line = text.count("\n")
    frame = f'  File "{file}", line {line}, in forward\n    return x * 2'
    net = NET.replace("/mine/net.py", str(file.with_name("net.py")))
    file.with_name("net.py").write_text("class Net:\n    def forward(self, x):\n" + " \n" * 9)
    assert is_of_function(f"{net}\n{frame}", OUTER) is wanted
