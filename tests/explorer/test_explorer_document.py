"""The explorer's document: what it says of a program, and that its stages are the programs."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import pytest
from parsing import parse_module as module

from relaxjax import (
    IRModule,
    Trainer,
    VirtualMachine,
    build,
    explore,
    from_jax,
    train_step,
    value_and_grad,
)
from relaxjax.cli.demo import trainable
from relaxjax.explorer import SCHEMA
from relaxjax.explorer.document import MODULE, Document, Hunk, Line, changed
from relaxjax.explorer.printed import Table, line_costs
from relaxjax.explorer.stages import hunks, stages_of
from relaxjax.explorer.subjects import Wish, found_in
from relaxjax.ops.cost import function_cost
from relaxjax.optim import SGD

MODEL = """
@I.ir_module
class Model:
    @R.function
    def main(x: R.Tensor((8, 4), "float32"), w: R.Tensor((4, 4), "float32")):
        with R.dataflow():
            a = R.matmul(x, w)
            b = R.tanh(a)
            loss = R.sum(R.multiply(b, b))
            R.output(loss)
        return loss
"""


def loss(w: Any, x: Any) -> Any:
    hidden = jnp.tanh(x @ w)
    return jnp.mean(hidden * hidden)


W, X = jnp.ones((4, 4)), jnp.ones((8, 4))


def of_model(**options: Any) -> Document:
    return explore(module(MODEL), **options).document


def printed(mod: IRModule) -> dict[str, list[str]]:
    """Each function as the module itself prints it."""
    found: dict[str, list[str]] = {}
    lines = str(mod.script(show_meta=False)).split("\n")
    for var, function in mod.functions.items():
        own = str(IRModule({var.name: function}).script(show_meta=False)).split("\n")
        start = own.index("class Module:") + 1
        found[var.name] = [line[4:] for line in own[start:]]
        assert all(line in lines for line in own[start:])
    return found


def test_every_stage_reads_as_the_program_it_is_of() -> None:
    found = found_in(value_and_grad(loss, memory_policy="balanced"), (W, X), Wish())
    table = Table()
    stages = stages_of(found.moments, table)
    document = Document("", (), (), tuple(table.numbers), stages, None, None)
    assert len(stages) > 5
    for number, moment in enumerate(found.moments):
        texts = printed(moment.mod)
        assert list(stages[number].functions) == list(texts)
        for name, text in texts.items():
            assert document.text(number, name) == text


def test_stages_say_what_passes_did() -> None:
    document = of_model(policy="free")
    names = [stage.name for stage in document.stages]
    assert names[:2] == ["given", "Gradient"]
    assert names[-1] == "Rematerialize"
    given, gradient = document.stages[:2]
    assert (given.milliseconds, gradient.about[:10]) == (None, "Add the ad")
    assert set(gradient.changed) == {"main_adjoint"}
    assert gradient.milliseconds is not None
    assert gradient.bindings > 2 * given.bindings
    assert gradient.flops > 2 * given.flops > 0


def test_a_stage_says_which_rules_rewrote_what() -> None:
    def scaled(w: jax.Array, x: jax.Array) -> jax.Array:
        return jnp.mean((x @ w) * 1.0)

    document = explore(scaled, W, X).document
    found = {
        one.rule: one
        for stage in document.stages
        for one in stage.rewritten
        if one.function == "loss_adjoint"
    }
    unit = found["unit"]  # what is multiplied by one
    assert unit.before.startswith("L.mul(")
    assert "(" not in unit.after
    stages = [stage for stage in document.stages if unit in stage.rewritten]
    assert [stage.name for stage in stages] == ["SimplifyExpr"]
    assert all(not stage.rewritten for stage in document.stages if stage.name == "Gradient")


def test_a_pass_that_runs_others_is_shown_by_them() -> None:
    names = [stage.name for stage in of_model().stages]
    assert "SimplifyExpr" in names
    assert "SimplifyGradient" not in names


def test_a_binding_knows_its_line_and_what_it_is_derived_from() -> None:
    document = explore(loss, W, X).document
    lines = [
        document.lines[n] for n in document.line_numbers(len(document.stages) - 1)["loss_adjoint"]
    ]
    adjoints = [line for line in lines if line.of == "hidden"]
    (forward,) = (line for line in lines if line.var == "hidden")
    assert adjoints
    for line in (forward, *adjoints):
        assert line.place is not None
        place = document.places[line.place]
        source = document.sources[place.source]
        assert source.lines[place.line - 1].strip() == "hidden = jnp.tanh(x @ w)"
        assert source.name.endswith("test_explorer_document.py")


def test_the_costs_of_lines_are_those_of_the_function() -> None:
    document = of_model()
    for number in range(len(document.stages)):
        numbers = document.line_numbers(number)
        if "main_adjoint" in numbers:
            flops = sum(document.lines[n].flops or 0 for n in numbers["main_adjoint"])
            assert flops > 0
    table = Table()
    mod = module(MODEL)
    table.of(mod)
    whole = function_cost(mod["main"], mod)
    assert whole is not None
    assert sum(line.flops or 0 for line in table.numbers) == whole.flops
    assert sum(line.bytes or 0 for line in table.numbers) == whole.bytes


def test_the_cost_of_a_loop_is_divided_among_the_lines_of_its_body() -> None:
    def steps(c: Any, row: Any) -> Any:
        hidden = jnp.tanh(c @ row)
        return hidden, hidden.sum()

    def scanned(w: Any) -> Any:
        return jax.lax.scan(steps, jnp.ones((4, 4)), w)[1].sum()

    mod = from_jax(scanned, jnp.ones((3, 4, 4)))
    name = next(iter(mod.relax_functions()))
    whole = function_cost(mod[name], mod)
    costs = line_costs(mod[name], mod)
    assert whole is not None
    assert round(sum(cost.flops for cost in costs.values())) == whole.flops
    assert round(sum(cost.bytes for cost in costs.values())) == whole.bytes
    assert max(cost.flops for cost in costs.values()) >= 3 * 2 * 4**3


def test_the_document_is_json_of_a_schema() -> None:
    found = explore(module(MODEL), policy="free")
    data = found.to_json()
    assert data["schema"] == SCHEMA == "relaxjax.explorer/1"
    assert list(data) == [
        "schema",
        "title",
        "sources",
        "places",
        "lines",
        "stages",
        "function",
        "memory",
        "notes",
        "profile",
        "numbers",
        "communication",
    ]
    assert json.loads(json.dumps(data)) == data
    assert data["function"] == data["memory"]["function"] == "main_adjoint"
    text = [fields[0] for fields in data["lines"]]
    assert text == [line.text for line in found.document.lines]


def test_bytes_that_are_live_add_up_to_the_peak() -> None:
    memory = of_model(policy="free").memory
    assert memory is not None
    assert memory.plans[0].name == "everything kept"
    assert memory.plans[0].extra_flops == 0
    for plan in memory.plans:
        live = [
            sum(life.bytes for life in plan.lives if life.start <= time <= life.end)
            for time in range(len(plan.order))
        ]
        assert max(live) == plan.peak


def test_plans_keep_less_for_less_memory() -> None:
    def deep(w: Any, x: Any) -> Any:
        for _ in range(12):
            x = jnp.tanh(x @ w)
        return x.sum()

    memory = explore(
        deep, jnp.ones((16, 16)), jnp.ones((512, 16)), policy="balanced"
    ).document.memory
    assert memory is not None
    peaks = [plan.peak for plan in memory.plans]
    assert len(peaks) > 2
    assert peaks == sorted(peaks, reverse=True)
    assert memory.plans[-1].extra_flops > 0
    again = [choice for choice in memory.plans[-1].choices if not choice.kept]
    assert again
    assert all(choice.reason.startswith("computed again") for choice in again)
    assert memory.plans[memory.chosen].peak < peaks[0]


def test_a_trainer_and_an_executable_are_shown_as_they_are_compiled() -> None:
    mod = trainable(0.1)
    built = build(mod)
    for subject in (Trainer(mod, VirtualMachine(built)), built):
        document = explore(subject).document
        assert [stage.name for stage in document.stages] == ["given"]
        assert document.function == "backbone_loss_adjoint"
        assert document.memory is not None


def test_a_training_step_is_shown_as_it_is_compiled() -> None:
    init, step = train_step(loss, SGD(0.1))
    document = explore(step, init(W), X).document
    assert [stage.name for stage in document.stages] == ["given"]
    assert (document.title, document.function) == ("loss", "backbone_loss_adjoint")
    with pytest.raises(TypeError, match=r"with a state and a batch, as .*, found 1 argument$"):
        explore(step, init(W))


def test_a_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "model.py"
    path.write_text(MODEL)
    document = explore(path).document
    assert document.title == "model.py"
    (source,) = document.sources
    assert "\n".join(source.lines) == MODEL.rstrip("\n")


def test_a_cell_of_a_notebook_is_called_by_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    cells = {__file__: ("Cell", "In[3]")}
    shell = SimpleNamespace(compile=SimpleNamespace(format_code_name=cells.get))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    (source,) = explore(loss, W, X).document.sources
    assert source.name == "In[3]"


def test_a_model_without_a_loss_has_no_backward_part() -> None:
    model = MODEL.replace("return loss", "return b").replace("output(loss)", "output(loss, b)")
    document = explore(module(model)).document
    assert document.memory is None
    (note,) = document.notes
    assert note == (
        'main gives R.Tensor((8, 4), dtype="float32"), and only a scalar is differentiated: there '
        "is no backward part"
    )


def test_open_sizes_are_told_of() -> None:
    document = explore(module(MODEL.replace("(8, 4)", '("n", 4)'))).document
    assert document.memory is None
    assert document.function == "main_adjoint"
    assert document.notes == ("memory is planned for one size of arguments, and n is not known",)


def test_an_empty_module_is_a_document_too() -> None:
    document = explore(IRModule({})).document
    assert document.function is None
    assert len(document.stages) == 1


@pytest.mark.parametrize(
    ("subject", "args", "message"),
    [
        (3, (), "a loss written in JAX with its arguments, found an object of type int"),
        (IRModule({}), (1,), "an object of type IRModule takes none: leave them out"),
    ],
)
def test_what_cannot_be_explored_is_refused(subject: Any, args: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        explore(subject, *args)


def test_hunks_make_one_list_of_another() -> None:
    before, after = [1, 2, 3, 4, 5, 6], [1, 7, 8, 3, 4, 9, 6]
    found = list(hunks(before, after))
    assert found == [Hunk(1, 1, ((7, 2),)), Hunk(4, 1, ((9, 1),))]
    assert changed(before, found) == after
    assert list(hunks(before, before)) == []
    assert changed([], list(hunks([], after))) == after
    assert changed(before, list(hunks(before, []))) == []


def test_attributes_of_the_module_are_a_part_of_it() -> None:
    document = explore(trainable(0.1), function="backbone_loss_adjoint").document
    attributes = document.text(0, MODULE)
    assert any("param_num" in line for line in attributes)
    assert Line(attributes[0]) in document.lines
