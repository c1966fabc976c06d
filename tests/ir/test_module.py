"""The module: functions by name, changed in copies."""

import copy
import pickle
import re
from typing import Any

import pytest
from parsing import parse_functions

from relaxjax import Function, IRModule, SeqExpr, TensorType
from relaxjax.ir import Attrs, ExternFunc, GlobalVar, Span, Var, structural_equal
from relaxjax.ir.node import replace

TY = TensorType((2,), "float32")


def function(ty: TensorType = TY) -> Function:
    x = Var("x", ty)
    return Function((x,), SeqExpr((), x), ty)


F, G = function(), function()
MODULE = IRModule({"f": F, "g": G}, {"seed": [1]}, {"vdevice": ["cpu"]})


def test_functions_are_found_by_name_and_by_global_variable() -> None:
    assert MODULE["f"] is F
    assert MODULE[GlobalVar("g")] is G
    assert MODULE.get_global_var("f").ty == F.ty
    assert [var.name for var in MODULE.get_global_vars()] == ["f", "g"]
    assert dict(MODULE.functions_items()) == dict(MODULE.functions)
    assert list(MODULE) == ["f", "g"]
    assert len(MODULE) == 2
    assert "f" in MODULE
    assert GlobalVar("h") not in MODULE
    assert 3 not in MODULE
    assert IRModule({"f": F, "e": ExternFunc("e")}).relax_functions() == {"f": F}


def test_an_unknown_function_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"no function `gg`; it has `f`, `g`; did you mean `g`\?"):
        MODULE["gg"]
    with pytest.raises(ValueError, match=r"the module has no function `f`$"):
        IRModule()["f"]
    with pytest.raises(ValueError, match="the module has no function `h`"):
        MODULE.without_functions("f", "h")


def test_changes_are_made_in_a_copy() -> None:
    changed = MODULE.with_function("h", F)
    assert list(MODULE) == ["f", "g"]
    assert list(changed) == ["f", "g", "h"]
    assert changed.attrs is MODULE.attrs
    assert changed.global_infos == MODULE.global_infos
    assert list(changed.without_functions("f", "g")) == ["h"]
    assert MODULE.with_attr("b", 2).attrs == Attrs(seed=(1,), b=2)
    assert MODULE.without_attr("seed").attrs == Attrs()


def test_a_change_that_changes_nothing_gives_the_very_module() -> None:
    assert MODULE.with_function("f", F) is MODULE
    assert MODULE.with_functions({"f": F, "g": G}) is MODULE
    assert MODULE.without_functions() is MODULE
    assert MODULE.with_attr("seed", (1,)) is MODULE
    assert MODULE.without_attr("other") is MODULE
    assert replace(MODULE, span=None) is MODULE


def test_a_changed_function_gives_its_global_variable_a_new_type() -> None:
    wide = function(TensorType((3,), "float32"))
    changed = MODULE.with_function("f", wide)
    assert changed.get_global_var("f").ty == wide.ty
    assert MODULE.get_global_var("f").ty == F.ty


def test_nothing_in_a_module_can_be_assigned_to_but_its_functions() -> None:
    with pytest.raises(TypeError, match="does not support item assignment"):
        MODULE.functions[GlobalVar("h")] = F  # type: ignore[index]  # what is tested
    with pytest.raises(TypeError, match="does not support item assignment"):
        MODULE.global_infos["a"] = ()  # type: ignore[index]  # what is tested
    with pytest.raises(AttributeError, match="cannot assign to field 'functions'"):
        MODULE.functions = {}  # type: ignore[misc]  # what is tested


def test_assignment_is_there_for_scripts_written_against_tvm() -> None:
    module = MODULE.clone()
    module["h"] = F
    module[GlobalVar("f")] = G
    module.update_func(module.get_global_var("g"), F)
    assert (module["h"], module["f"], module["g"]) == (F, G, F)
    assert list(MODULE) == ["f", "g"]


def test_copies_do_not_share_assignments() -> None:
    for module in (copy.copy(MODULE), copy.deepcopy(MODULE), MODULE.clone()):
        module["f"] = G
        assert MODULE["f"] is F


def test_a_module_can_be_pickled() -> None:
    module = replace(MODULE, span=Span("model.py", 1))
    again = pickle.loads(pickle.dumps(module))
    assert structural_equal(again, module)
    assert again.span == module.span


def test_a_module_of_one_function() -> None:
    private = IRModule.from_expr(F)
    assert private["main"] is F
    assert F.global_symbol is None, "a private function stays private"
    named = IRModule.from_expr(F.with_attr("global_symbol", "train"))
    assert list(named) == ["train"]


@pytest.mark.parametrize(
    ("functions", "message"),
    [
        ({"f": 3}, "`f` must be a Function or an ExternFunc, found int"),
        ({"f": Var("x")}, "`f` must be a Function or an ExternFunc, found Var"),
        ({3: F}, "a function is entered by a name or a GlobalVar, found `3`"),
    ],
)
def test_what_is_no_function_cannot_be_entered(functions: Any, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        IRModule(functions)
    with pytest.raises(TypeError, match=message):
        MODULE.clone()[next(iter(functions))] = next(iter(functions.values()))


@pytest.mark.parametrize(
    ("name", "other"),
    [("a.b", "a_b"), ("1st", "v1st"), ("", "v"), ("class", "class_1"), ("R", "R_1"), ("ℌ", "H")],
)
def test_a_name_that_the_script_cannot_write_is_refused(name: str, other: str) -> None:
    """A module is what its text says, names included: `ℌ` is read as `H` by Python."""
    with pytest.raises(ValueError, match=f"`{name}` cannot name a function: .* such as `{other}`"):
        IRModule({name: F})
    with pytest.raises(ValueError, match="cannot name a function"):
        MODULE.with_function(name, F)


@pytest.mark.parametrize("name", ["cls", "Module", "print", "match", "_", "été"])
def test_any_other_identifier_names_a_function(name: str) -> None:
    assert list(IRModule({name: F})) == [name]


def test_an_unknown_argument_is_an_error() -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'functionz'"):
        IRModule(functionz={})  # type: ignore[call-arg]  # what is tested


def test_a_notebook_folds_the_functions_of_a_module() -> None:
    text = """
    far = R.ExternFunc("far")

    @R.function
    def main(x: R.Tensor((2,), "float32"), y: R.Tensor((2,), "float32")):
        s = R.add(x, y)
        return s

    @R.function(private=True)
    def helper(x: R.Tensor((2,), "float32")):
        return x
"""
    module = parse_functions(text)
    page = module._repr_html_()
    assert page.startswith("<div><div>IRModule of 3 functions</div><details>")
    heads = re.findall("<summary><code>(.*?)</code></summary>", page)
    kind = "R.Tensor((2,), dtype=&quot;float32&quot;)"
    assert sorted(heads) == [
        "far, from outside",
        f"helper(x) -&gt; {kind}, 0 bindings",
        f"main(x, y) -&gt; {kind}, 1 binding",
    ]
    assert "def helper(" in re.sub("<[^>]*>", "", page)
    alone = module.without_functions("far", "helper")
    assert alone._repr_html_() == alone.script(show_meta=False).html()
