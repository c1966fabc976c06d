"""Our patterns, the passes that fuse by them, and our devices against those of TVM itself.

TVM is asked in a process of its own, by the interpreter that `RELAXJAX_TVM_PYTHON` names. The same
line of Python makes a module of another on both sides; both start from TVM's own print.
"""

import pytest
from asking_tvm import changed_by_tvm, check_changed

LAYER = '("mine.layer", make_fused_bias_activation_pattern("relax.matmul", True, "relax.nn.relu"))'
EXP = '("mine.exp", is_op("relax.exp")(wildcard()))'
SUM = '("mine.add", is_op("relax.add")(wildcard(), wildcard()))'
ANY = '("mine.any", is_op("relax.exp")(wildcard()) | is_op("relax.tanh")(wildcard())'
ANY += ' | is_op("relax.add")(wildcard(), wildcard()))'
REWRITE = (
    "lambda mod: IRModule.from_expr((lambda x, y: rewrite_call({pattern}, lambda expr, found: "
    '{result}, mod["main"]))(wildcard(), wildcard()))'
)
TWO_LAYERS = (
    "a = R.matmul(x, w)\nc = R.add(a, b)\nd = R.nn.relu(c)\n"
    "e = R.matmul(d, w)\nf = R.add(e, b)\ngv = R.nn.relu(f)"
)

CASES: dict[str, tuple[str, str]] = {
    "layers": (f"FuseOpsByPattern([{LAYER}])", TWO_LAYERS),
    "a part of a layer": (
        f"FuseOpsByPattern([{LAYER}, {SUM}])",
        "a = R.matmul(x, w)\nc = R.add(a, b)\ngv = R.tanh(c)",
    ),
    "the first pattern goes first": (
        f"FuseOpsByPattern([{SUM}, {LAYER}])",
        "a = R.matmul(x, w)\nc = R.add(a, b)\ngv = R.nn.relu(c)",
    ),
    "constants inside": (
        f"FuseOpsByPattern([{SUM}])",
        'a = R.add(x, R.const(1.0, "float32"))\ngv = R.exp(a)',
    ),
    "constants handed in": (
        f"FuseOpsByPattern([{SUM}], bind_constants=False)",
        'a = R.add(x, R.const(1.0, "float32"))\ngv = R.exp(a)',
    ),
    "regions one by one": (
        f"FuseOpsByPattern([{LAYER}, {EXP}], annotate_codegen=True)",
        TWO_LAYERS.replace("gv =", "g =") + "\ngv = R.exp(g)",
    ),
    "regions merged": (
        f"lambda mod: MergeCompositeFunctions()(FuseOpsByPattern([{LAYER}, {EXP}])(mod))",
        TWO_LAYERS.replace("gv =", "g =") + "\nh = R.exp(g)\ngv = R.sin(h)",
    ),
    "a region that would need itself": (
        f"lambda mod: MergeCompositeFunctions()(FuseOpsByPattern([{ANY}])(mod))",
        "a = R.exp(x)\nc = R.sin(a)\nd = R.tanh(c)\ngv = R.add(a, d)",
    ),
    "twice as a product": (
        REWRITE.format(
            pattern='is_op("relax.add")(x, x)',
            result='R.multiply(found[x], R.const(2.0, "float32"))',
        ),
        "a = R.add(x, x)\nc = R.add(a, x)\ngv = R.add(c, c)",
    ),
    "until nothing fits": (
        REWRITE.format(
            pattern='is_op("relax.negative")(is_op("relax.negative")(x))', result="found[x]"
        ),
        "a = R.negative(x)\nc = R.negative(a)\nd = R.exp(c)\ngv = R.multiply(d, d)",
    ),
    "a value that has a name": (
        REWRITE.format(
            pattern='is_op("relax.nn.relu")(is_op("relax.add")(x, y))',
            result="R.nn.gelu(R.add(found[y], found[x]))",
        ),
        "a = R.add(x, x)\nc = R.matmul(a, w)\nd = R.add(c, b)\nf = R.nn.relu(d)\ngv = R.add(f, d)",
    ),
    "swapped": (
        REWRITE.format(
            pattern='is_op("relax.add")(x, is_op("relax.exp")(y))',
            result="R.subtract(found[x], found[y])",
        ),
        "a = R.exp(x)\ngv = R.add(a, x)",
    ),
    "a hint": (
        "RealizeVDevice()",
        "a = R.hint_on_device(x, R.device(2, 0))\nc = R.matmul(a, w)\ngv = R.add(c, b)",
    ),
    "a hint elsewhere": (
        "RealizeVDevice()",
        "a = R.hint_on_device(x, R.device(1))\nc = R.hint_on_device(a, R.device(2))\ngv = R.exp(c)",
    ),
    "a move": ("RealizeVDevice()", 'a = R.exp(x)\nc = R.to_vdevice(a, "cuda")\ngv = R.sin(c)'),
}


def program(body: str) -> str:
    lines = "\n".join(f"            {line}" for line in [*body.splitlines(), "R.output(gv)"])
    return (
        "@I.ir_module\nclass Module:\n"
        '    I.module_global_infos({"vdevice": [I.vdevice("cuda"), I.vdevice("llvm")]})\n\n'
        "    @R.function\n"
        '    def main(x: R.Tensor((4, 4), "float32"), w: R.Tensor((4, 4), "float32"),'
        ' b: R.Tensor((4,), "float32")):\n'
        f"        with R.dataflow():\n{lines}\n        return gv\n"
    )


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    return changed_by_tvm(
        tmp_path_factory.mktemp("partition"),
        lambda: {name: (program(body), change) for name, (change, body) in CASES.items()},
    )


@pytest.mark.parametrize("name", CASES)
def test_ours_gives_what_tvm_gives(answers: dict[str, list[str]], name: str) -> None:
    check_changed(CASES[name][0], answers[name])
