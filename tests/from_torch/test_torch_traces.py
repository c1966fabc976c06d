"""What stacks of exported operators tell of the code that ran them."""

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
        ([NET, HELPER, STATIC], [OUTER], True),
        ([STRICT, NET + CARETS], [OUTER], False),
        ([STRICT, NET + CARETS, FUNCTORCH, STATIC], [OUTER, INNER], True),
        ([NET, STATIC], [], False),
        ([], [OUTER], False),
    ],
)
def test_what_runs_inside_of_a_function(
    frames: list[str], modules: list[str], wanted: bool
) -> None:
    assert is_of_function("\n".join(frames), ";".join(modules)) is wanted
