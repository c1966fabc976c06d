"""The explorer's page in a real browser: every view by click and by key, and nothing goes wrong."""

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import pytest
from explored_loss import loss
from hostile_program import HOSTILE, LONG, hostile_document

from relaxjax import explore, value_and_grad
from relaxjax.explorer import Document
from relaxjax.explorer.document import Communication, Exchange, Hunk, Line, Place, Source, Stage
from relaxjax.explorer.page import page as page_of

VIEWS = ("program", "passes", "memory", "cost", "graph")
MANY = 5000
Open = Callable[..., Any]


def column(page: Any, name: str) -> Any:
    return page.get_by_role("listbox", name=name, exact=True)


def lit(page: Any, name: str) -> list[str]:
    return list(column(page, name).locator(".row.lit .code").all_inner_texts())


def chosen(page: Any) -> Any:
    return page.locator(".inspector h2")


def fragment(page: Any) -> str:
    return str(page.evaluate("location.hash"))


@pytest.mark.parametrize("width", [1280, 390])
@pytest.mark.parametrize("view", VIEWS)
def test_each_view_opens_by_its_address(opened: Open, view: str, width: int) -> None:
    page = opened(f"view={view}", width=width)
    assert page.get_by_role("tab", selected=True).inner_text().lower() == view
    wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
    assert page.evaluate(wide) == 0


def test_a_line_of_the_source_lights_up_its_bindings_and_their_adjoints(opened: Open) -> None:
    page = opened()
    column(page, "Source").locator(".row", has_text="x = jnp.tanh(product)").click()
    assert any("L.tanh(" in text for text in lit(page, "Forward program"))
    assert lit(page, "Backward program")
    assert chosen(page).inner_text() == "tests/support/explored_loss.py:11"
    assert "line=0" in fragment(page)


def test_an_adjoint_lights_up_what_it_is_the_adjoint_of(opened: Open) -> None:
    page = opened()
    backward = column(page, "Backward program")
    row = backward.locator(".row", has_text="_adjoint").first
    name = row.locator(".name").inner_text()
    row.click()
    assert chosen(page).inner_text() == name
    assert f"row={name}" in fragment(page)
    assert lit(page, "Source")
    assert lit(page, "Forward program")


def test_the_pointer_lights_up_what_it_is_over(opened: Open) -> None:
    page = opened()
    column(page, "Forward program").locator(".row", has_text="L.tanh(").first.hover()
    assert lit(page, "Source") == ["        x = jnp.tanh(product)"]
    page.mouse.move(5, 5)
    assert lit(page, "Source") == []


def test_the_program_is_walked_by_keys(opened: Open) -> None:
    page = opened()
    column(page, "Forward program").focus()
    page.keyboard.press("ArrowDown")
    for _ in range(4):
        page.keyboard.press("ArrowDown")
    first = chosen(page).inner_text()
    page.keyboard.press("ArrowDown")
    assert chosen(page).inner_text() != first
    page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    assert page.evaluate("document.activeElement.ariaLabel") == "Backward program"
    assert column(page, "Backward program").locator(".row").last.is_visible()


def test_a_selection_is_sent_by_its_address(opened: Open) -> None:
    page = opened()
    column(page, "Forward program").locator(".row", has_text="L.tanh(").first.click()
    name = chosen(page).inner_text()
    again = opened(fragment(page)[1:])
    assert chosen(again).inner_text() == name
    assert lit(again, "Forward program")


def test_the_tabs_are_walked_by_keys(opened: Open) -> None:
    page = opened()
    page.get_by_role("tab", name="Program").focus()
    for view in VIEWS[1:]:
        page.keyboard.press("ArrowRight")
        assert page.get_by_role("tab", selected=True).inner_text().lower() == view


def test_passes_show_what_they_changed(opened: Open) -> None:
    page = opened("view=passes")
    column(page, "Passes").locator(".row", has_text="Gradient").first.click()
    changes = column(page, "What changed")
    assert changes.locator(".row.new").count()
    assert not changes.locator(".row.gone").count()
    assert "Add the adjoint" in page.locator(".about").inner_text()
    column(page, "Passes").focus()
    page.keyboard.press("ArrowDown")
    assert "Gradient →" in page.locator(".passes .column h2").last.inner_text()
    page.get_by_role("button", name="From first to last").click()
    assert page.locator(".passes .column h2").last.inner_text().startswith("0. given →")
    page.get_by_label("From", exact=True).select_option(label="1. FoldConstant")
    assert page.locator(".passes .column h2").last.inner_text().startswith("1. FoldConstant →")


def test_passes_say_which_rules_rewrote_what(opened: Open) -> None:
    page = opened("view=passes")
    page.get_by_role("button", name="From first to last").click()
    rules = page.locator(".rules details")
    before = rules.count()
    assert before
    rule = rules.first
    assert not rule.locator("p").first.is_visible()
    rule.locator("summary").focus()
    page.keyboard.press("Enter")
    assert rule.locator("summary").inner_text() == "product rewrote 12 values"
    assert rule.locator("p").count() == 12
    assert rule.locator("del").first.inner_text().startswith("L.dot_general(")
    assert rule.locator("ins").first.inner_text().startswith("R.matmul(")
    page.get_by_label("From", exact=True).select_option(label="6. Gradient")
    assert 0 < rules.count() < before


def test_a_changed_line_leads_to_the_program(opened: Open) -> None:
    page = opened("view=passes&stage=6")
    row = column(page, "What changed").locator(".row.new", has_text=" = ").first
    name = row.locator(".name").inner_text()
    row.click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Program"
    assert chosen(page).inner_text() == name


def test_memory_shows_what_is_alive_at_each_moment(opened: Open) -> None:
    page = opened("view=memory")
    chart = page.get_by_role("slider", name="Moment of the program")
    at_peak = chart.get_attribute("aria-valuetext")
    box = chart.bounding_box()
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 60)
    clicked = chart.get_attribute("aria-valuenow")
    assert "moment=" in fragment(page)
    assert chart.get_attribute("aria-valuetext") != at_peak
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert int(chart.get_attribute("aria-valuenow")) == int(clicked) + 1
    page.keyboard.press("Home")
    assert chart.get_attribute("aria-valuenow") == "0"


def test_the_slider_chooses_a_plan(opened: Open) -> None:
    page = opened("view=memory")
    plans = page.get_by_role("slider", name="Plan, from much memory to little")
    plans.focus()
    page.keyboard.press("Home")
    assert page.locator(".tools strong").inner_text() == "everything kept"
    kept = column(page, "Kept and computed again")
    assert kept.locator(".tag.again").count() == 0
    page.keyboard.press("End")
    assert page.locator(".tools strong").inner_text() != "everything kept"
    assert kept.locator(".tag.again").count()
    assert "plan=" in fragment(page)


def test_a_value_in_memory_leads_to_the_program(opened: Open) -> None:
    page = opened("view=memory")
    row = column(page, "Alive at this moment").locator(".row").first
    name = row.locator(".code").inner_text().removesuffix(" again")
    row.click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Program"
    assert chosen(page).inner_text() == name


def test_costs_by_line_and_by_operator(opened: Open) -> None:
    page = opened("view=cost")
    costs = column(page, "Costs")
    assert "x @ w" in costs.locator(".row").first.inner_text()
    page.get_by_role("button", name="By operator").click()
    assert "L.dot_general" in costs.locator(".row").first.inner_text()
    page.get_by_role("button", name="Bytes").click()
    assert "iB" in costs.locator(".row .amount").first.inner_text()
    page.get_by_role("button", name="By source line").click()
    costs.focus()
    page.keyboard.press("Home")
    assert page.get_by_role("tab", selected=True).inner_text() == "Program"
    assert lit(page, "Source")


def test_a_box_of_the_map_leads_to_its_binding(opened: Open) -> None:
    page = opened("view=cost")
    box = page.locator(".box").first
    name = box.get_attribute("title").split(":")[0]
    box.click()
    assert chosen(page).inner_text() == name


def test_times_are_those_of_kernels(opened: Open, ran: Path) -> None:
    page = opened("view=cost", path=ran)
    told = page.locator(".tools .hint").inner_text()
    assert "of kernels in a run of" in told
    assert "with the numbers given" in told
    costs = column(page, "Costs")
    assert any("x @ w" in text for text in costs.locator(".row").all_inner_texts())
    assert "kernel" in costs.locator(".row .delta").first.inner_text()
    assert re.search(r"\d [µm]s$", costs.locator(".row .amount").first.inner_text())
    page.locator(".box.forward").first.click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Program"
    assert re.search(r"\d [µm]s\b", page.locator(".inspector .head").inner_text())
    page.get_by_role("tab", name="Cost").click()
    page.get_by_role("button", name="FLOPs").click()
    assert "FLOP" in costs.locator(".row .amount").first.inner_text()


def test_numbers_show_what_is_not_finite_and_where(opened: Open, ran: Path) -> None:
    page = opened("view=numbers", path=ran)
    told = page.locator(".badge.bad").all_inner_texts()
    assert any("with NaN" in text for text in told)
    assert any("with infinite numbers" in text for text in told)
    values = column(page, "Values")
    row = values.locator(".row.wrong", has_text="x").first
    row.click()
    assert "row=x" in fragment(page)
    assert "infinite" in page.locator(".detail").inner_text()
    chart = page.get_by_role("slider", name="Value of the program")
    before = int(chart.get_attribute("aria-valuenow"))
    chart.focus()
    page.keyboard.press("ArrowRight")
    assert int(chart.get_attribute("aria-valuenow")) == before + 1
    page.keyboard.press("End")
    box = chart.bounding_box()
    page.mouse.click(box["x"] + 0.2 * box["width"], box["y"] + 60)
    assert int(chart.get_attribute("aria-valuenow")) < before + 20
    page.locator(".detail .link").first.click()
    assert page.get_by_role("tab", selected=True).inner_text() == "Program"
    assert "rms" in page.locator(".inspector .head").inner_text()


def test_exchanges_of_devices_lead_to_their_values(opened: Open, tmp_path: Path) -> None:
    gathered = Exchange("all-gather", 4096, 12, ("data",), "backward", "d1", 0, True)
    reduced = Exchange("all-reduce", 1024, None, None, "update", None, None, None)
    told = Communication({"data": 2, "model": 4}, (gathered, reduced))
    path = tmp_path / "devices.html"
    path.write_text(page_of(replace(many_bindings(), communication=told)), encoding="utf-8")
    for width in (390, 1280):
        page = opened("view=devices", path=path, width=width)
        head = page.locator(".devices .tools").inner_text()
        assert "5.00 KiB a step and device" in head
        assert "a mesh of data 2 × model 4" in head
    rows = column(page, "Exchanges").locator(".row").all_inner_texts()
    assert all(word in rows[0] for word in ("all-gather", "backward", "yes", "12", "4.00 KiB"))
    assert "not known" in rows[1]
    assert "1.00 KiB or more" in rows[1]
    column(page, "Exchanges").locator(".row").first.click()
    assert chosen(page).inner_text() == "d1"


def test_numbers_have_a_view_only_where_there_are_some(opened: Open) -> None:
    page = opened("view=numbers")
    assert page.get_by_role("tab", selected=True).inner_text() == "Program"
    assert page.get_by_role("tab", name="Numbers").count() == 0


def test_the_graph_folds_layers_that_repeat(opened: Open) -> None:
    page = opened("view=graph")
    lanes = column(page, "Forward and backward lanes")
    fold = lanes.locator(".row.fold")
    assert "12 times the same 2 lines" in fold.inner_text()
    count = lanes.locator(".row").count()
    fold.click()
    assert lanes.locator(".row").count() == count + 22
    fold.click()
    lanes.locator(".node.forward", has_text="jnp.tanh").first.click()
    around = page.get_by_role("region", name="The neighbours of what is selected")
    assert around.locator(".near.self .name").count() == 1
    other = around.locator(".near.before .node").first
    name = other.locator(".name").inner_text()
    other.click()
    assert around.locator(".near.self .name").inner_text() == name


def test_colours_follow_the_system_until_somebody_chooses(opened: Open) -> None:
    def paper(page: Any) -> str:
        return str(page.evaluate("getComputedStyle(document.body).backgroundColor"))

    light, dark = opened(color_scheme="light"), opened(color_scheme="dark")
    white = paper(light)
    assert white != paper(dark)
    dark.get_by_role("button", name="Show in light colours").click()
    assert paper(dark) == white


def test_a_notebook_shows_the_page_inside_of_its_own(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "notebook.html"
    found = explore(value_and_grad(loss), jnp.ones((16, 16)), jnp.ones((512, 16)))
    path.write_text(f"<!doctype html><div class=view>{found._repr_html_()}</div>")
    page = opened(path=path)
    frame = page.frame_locator("iframe")
    frame.get_by_role("tab", name="Cost").click()
    frame.get_by_role("listbox", name="Costs").locator(".row").first.click()
    assert frame.locator(".forward .row.lit").count()


def test_all_rows_are_printed(opened: Open) -> None:
    page = opened()
    before = page.locator(".backward .row").count()
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    rows = page.locator(".backward .row").count()
    assert rows > before
    assert rows == int(page.locator(".backward .row").first.get_attribute("aria-setsize"))


def test_a_hostile_program_is_shown_as_text(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    path.write_text(page_of(hostile_document()), encoding="utf-8")
    for view in VIEWS:
        page = opened(f"view={view}&row=a{HOSTILE.replace(' ', '+')}", path=path)
        assert page.evaluate("window.broken") is None
        assert page.locator("h1").inner_text() == HOSTILE
        assert page.locator("img").count() == 0
    page = opened(path=path)
    column(page, "Forward program").locator(".row .name").first.click()
    assert chosen(page).inner_text() == f"a{HOSTILE}"
    assert LONG in page.locator(".whole").inner_text()
    assert page.evaluate("window.broken") is None


def many_bindings() -> Document:
    """A chain of bindings, and the adjoint of each."""
    ty = 'R.Tensor((4,), dtype="float32")'
    half = MANY // 2
    forward = [
        Line(f"        v{i}: {ty} = R.tanh(v{i - 1})", f"v{i}", i % 50, None, 4, 32)
        for i in range(1, half + 1)
    ]
    backward = [
        Line(f"        d{i}: {ty} = R.exp(v{i})", f"d{i}", i % 50, f"v{i}", 8, 32)
        for i in range(half, 0, -1)
    ]
    whole = {"main_adjoint": (Hunk(0, 0, ((0, MANY),)),)}
    stage = Stage("given", "", None, 0, ("main_adjoint",), whole, (), MANY, 6 * MANY, 32 * MANY)
    places = tuple(Place(0, line + 1, 0) for line in range(50))
    source = Source("model.py", tuple(f"line {line}" for line in range(1, 51)))
    lines = (*forward, *backward)
    return Document("many", (source,), places, lines, (stage,), "main_adjoint", None)


def test_five_thousand_bindings_are_shown_a_screen_at_a_time(opened: Open, tmp_path: Path) -> None:
    path = tmp_path / "many.html"
    path.write_text(page_of(many_bindings()), encoding="utf-8")
    page = opened(path=path)
    assert page.locator(".row").count() < 250
    column(page, "Backward program").focus()
    page.keyboard.press("End")
    assert chosen(page).inner_text() == "d1"
    page.locator(".forward .row.lit .name", has_text="v1").first.wait_for()
    for view in VIEWS:
        page.get_by_role("tab", name=view.capitalize()).click()
        assert page.locator(".row").count() < 250
    spent = page.evaluate("""() => {
          document.getElementById("tab-program").click();
          const row = document.querySelector(".backward .row");
          const start = performance.now();
          row.click();
          document.body.offsetHeight;
          return performance.now() - start;
        }""")
    assert spent < 1000  # milliseconds: 10 to 30 where nothing else runs
