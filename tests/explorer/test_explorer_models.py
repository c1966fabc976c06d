"""The explorer's page of models of the size that people have: small files, quick pages.

RELAXJAX_FULL=1 runs them, which takes minutes; `.ci/full browsers` is alone on the machine, so that
times can be told.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import explored_models
import pytest
from full import FULL
from hostile_program import hostile_document

from relaxjax.explorer.page import page as page_of

if not FULL:
    pytest.skip("only where RELAXJAX_FULL is set", allow_module_level=True)

MOST_BYTES = 2_000_000
FIRST_PAINT, CLICK = 1000, 100  # milliseconds, the best of a few tries
TRIES, CLICKS = 5, 15
MODELS: dict[str, Callable[[], str]] = {
    "resnet50": lambda: explored_models.residual_network().html(),
    "gpt48": lambda: explored_models.rolled_gpt().html(),
    "diffusion": lambda: explored_models.diffusion().html(),
    "hostile": lambda: page_of(hostile_document()),
}
# From a click on a row to what it changed on the screen.
CLICKED = """() => new Promise((done) => {
  const rows = document.querySelectorAll('.panel [role="option"]');
  const row = rows[Math.min(rows.length - 1, 5)];
  const start = performance.now();
  row?.click();
  requestAnimationFrame(() => setTimeout(() => done(performance.now() - start)));
})"""


@pytest.fixture(scope="module", params=MODELS)
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("models") / f"{request.param}.html"
    path.write_text(MODELS[request.param](), encoding="utf-8")
    return path


def test_the_page_of_a_model_is_small(model: Path) -> None:
    size = model.stat().st_size
    print(f"{model.stem}: {size / 1024:.0f} KiB")
    assert size < MOST_BYTES


def test_the_page_of_a_model_is_quick(opened: Callable[..., Any], model: Path) -> None:
    page, *others = [opened(path=model) for _ in range(TRIES)]
    marked = "performance.getEntriesByName('shown')[0].startTime"
    shown = [one.evaluate(marked) for one in (page, *others)]
    print(f"{model.stem}: shown after {min(shown):.0f} ms")
    assert min(shown) < FIRST_PAINT
    views = [tab.get_attribute("id").removeprefix("tab-") for tab in page.get_by_role("tab").all()]
    for view in views:
        spent = []
        for _ in range(CLICKS):
            page.get_by_role("tab", name=view.capitalize()).click()
            spent.append(page.evaluate(CLICKED))
        print(f"{model.stem}: a click in {view} takes {min(spent):.0f} ms")
        assert min(spent) < CLICK


def test_each_view_of_a_model_opens(opened: Callable[..., Any], model: Path) -> None:
    for width, scheme in ((1280, "light"), (390, "dark")):
        page = opened(path=model, width=width, color_scheme=scheme)
        for tab in page.get_by_role("tab").all():
            tab.click()
            assert tab.get_attribute("aria-selected") == "true"
            wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            assert page.evaluate(wide) == 0
