"""How Sphinx builds the site; build_site.py writes the pages that it reads."""

import ast
import contextlib
import sys
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.nodes import make_refnode

sys.path.insert(0, str(Path(__file__).parent))

import relaxjax

project = "relaxjax"
release = version = relaxjax.__version__
copyright = "the authors of relaxjax, Apache-2.0"
html_title = f"relaxjax {release}"

extensions = ["myst_nb", "sphinx_copybutton"]
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
suppress_warnings = ["myst.header"]  # an operator's page has notes under headings of their own
highlight_language = "text"
nb_execution_mode = "force"  # what a notebook shows is what this version gives
nb_execution_raise_on_error = True
nb_execution_timeout = 300  # seconds for a cell
nb_execution_show_tb = True
nb_merge_streams = True
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
templates_path = ["templates"]
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
        "sidebar/versions.html",
    ]
}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_show_sourcelink = False
html_copy_source = False
pygments_style = "friendly"
pygments_dark_style = "monokai"


def link_names(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    """Let a public name that stands as code lead to its place in the API reference."""
    objects = app.env.domains["py"].objects  # type: ignore[attr-defined]
    homes: dict[str, Any] = {}
    for path, entry in objects.items():
        homes.setdefault(path.rpartition(".")[2], (path, entry))
        homes[path.removeprefix("relaxjax.")] = (path, entry)
    for node in list(doctree.findall(nodes.literal)):
        name = node.astext().removesuffix("()").removeprefix("relaxjax.")
        inside = isinstance(node.parent, nodes.reference | nodes.title)
        if inside or name not in homes:
            continue
        path, entry = homes[name]
        if entry.objtype not in ("class", "function", "exception"):
            continue
        link = make_refnode(
            app.builder, docname, entry.docname, entry.node_id, node.deepcopy(), path
        )
        node.replace_self(link)


def colour_programs(app: Sphinx, doctree: nodes.document) -> None:
    """Let indented blocks be coloured where they are Python, as the scripts of the passes are."""
    for block in doctree.findall(nodes.literal_block):
        if block.get("language") == "none":
            with contextlib.suppress(SyntaxError):
                ast.parse(block.astext())
                block["language"] = "python"


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", colour_programs)
    app.connect("doctree-resolved", link_names)
