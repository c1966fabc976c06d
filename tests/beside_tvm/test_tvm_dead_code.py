"""Our dead-code elimination against that of TVM itself.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names. Both
start from TVM's own print of a program, because it spells branches in a way of its own.

Ours goes further in two places, which have tests of their own: TVM keeps what only a dead closure
captures, and every match_cast.
"""

import pytest
from asking_tvm import changed_by_tvm, check_changed

CHANGE = "DeadCodeElimination()"

BODIES = {
    "blocks": """
a = R.add(x, x)
b = R.multiply(a, x)
with R.dataflow():
    c = R.add(a, x)
    d = R.multiply(c, c)
    e = R.subtract(c, c)
    R.output(d, e)
f = R.add(d, x)
return d
""",
    "a dataflow block that goes": """
a = R.add(x, x)
with R.dataflow():
    b = R.multiply(a, x)
    R.output(b)
c = R.subtract(a, x)
return c
""",
    "branches": """
a = R.add(x, x)
if c:
    unused = R.multiply(x, x)
    y = R.multiply(a, x)
else:
    y = R.subtract(x, x)
if c:
    z = R.multiply(y, x)
else:
    z = R.subtract(x, y)
return y
""",
    "closures": """
a = R.add(x, x)

@R.function
def never(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    r = R.add(t, x)
    return r

@R.function
def called(t: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
    r = R.add(t, a)
    return r

y = called(x)
z = called(y)
return y
""",
    "match_cast": """
m = T.int64()
a = R.match_cast(x, R.Tensor((m,), "float32"))
b = R.match_cast(x, R.Tensor((3,), "float32"))
z = R.zeros(R.shape([m]), "float32")
u = R.zeros(R.shape([m]), "float32")
y = R.add(b, x)
return (y, z)
""",
    "impure calls": """
a = R.add(x, x)
b = R.call_packed("show", a, ty_args=R.Tuple)
d = R.call_pure_packed("show", a, ty_args=R.Tuple)
if c:
    e = R.call_packed("show", x, ty_args=R.Tuple)
    y = R.add(x, x)
else:
    y = R.multiply(x, x)
return x
""",
    "functions": """
a = cls.helper(x)
b = cls.orphan(x)
return a
""",
}


def program(body: str) -> str:
    lines = "".join(f"        {line}\n" for line in body.strip().splitlines())
    pure = "call_packed" not in body
    return f"""
@I.ir_module
class Module:
    @R.function(pure={pure})
    def main(x: R.Tensor((3,), "float32"), c: R.Tensor((), "bool")) -> R.Object:
        cls = Module
{lines}
    @R.function(private=True)
    def helper(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        unused = R.add(x, x)
        y = R.multiply(x, x)
        return y

    @R.function(private=True)
    def orphan(x: R.Tensor((3,), "float32")) -> R.Tensor((3,), "float32"):
        y = R.add(x, x)
        return y
"""


PROGRAMS = {name: program(body) for name, body in BODIES.items()}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return changed_by_tvm(
        tmp_path_factory.mktemp("tvm"),
        lambda: {name: (text, CHANGE) for name, text in PROGRAMS.items()},
    )


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_same_stays(name: str, answers: dict[str, list[str]]) -> None:
    check_changed(CHANGE, answers[name])
