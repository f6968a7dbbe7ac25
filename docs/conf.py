"""Sphinx: how the site is made. ``make doc`` builds it into out/doc; every example is executed, every warning is an error."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from docutils import nodes
from docutils.parsers.rst import directives
from docutils.statemachine import StringList
from pygments.lexers.special import TextLexer
from sphinx.application import Sphinx
from sphinx.errors import SphinxError
from sphinx.util.docutils import SphinxDirective

sys.path.insert(0, str(Path(__file__).parent))

import docstrings  # noqa: E402
import rooms  # noqa: E402

import weft  # noqa: E402
from weft.process.keyword_checks import KeywordCheck  # noqa: E402

_ipython = tempfile.TemporaryDirectory()  # the pages' kernels read no settings of the user's, and warn of nothing
os.environ["IPYTHONDIR"] = _ipython.name
_settings = Path(_ipython.name, "profile_default", "ipython_kernel_config.py")
_settings.parent.mkdir()
_settings.write_text('c.IPKernelApp.log_level = "ERROR"\n')

project = "weft"
author = "the weft authors"
copyright = author
version = release = weft.__version__

extensions = [
    "sphinx.ext.autodoc", "sphinx.ext.autosummary", "sphinx.ext.napoleon", "myst_nb", "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
]
exclude_patterns = ["**/README.md"]
root_doc = "index"
default_role = "literal"
suppress_warnings = ["toc.empty_glob"]

autodoc_typehints = "none"
autodoc_member_order = "bysource"
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_param = False  # types are words here, not names to refer to
napoleon_custom_sections = [("Attributes", "params_style")]
napoleon_use_rtype = False
napoleon_preprocess_types = False
toc_object_entries = False

myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_in_temp = True
nb_execution_timeout = 120
nb_merge_streams = True
nb_render_markdown_format = "myst"
copybutton_exclude = ".linenos, .gp, .go"

sphinx_gallery_conf = {
    "examples_dirs": "../examples/gallery",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py$",  # all of them are executed
    "within_subsection_order": "gallery_order.GalleryOrder",
    "abort_on_example_error": True,
    "notebook_extensions": set(),  # myst_nb would read the notebooks as pages of their own
    "download_all_examples": False,
    "write_computation_times": False,
    "show_signature": False,
    "capture_repr": (),
    "image_srcset": ["2x"],
    "doc_module": ("weft",),
    "reference_url": {"weft": None},  # names in the programs link to the reference
}

html_theme = "pydata_sphinx_theme"
html_title = "weft"
html_copy_source = False
html_show_sourcelink = False
html_theme_options = {
    "logo": {"text": "weft"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
    "show_toc_level": 2,
}
html_sidebars = {"index": [], "changelog": [], "install": [], "why": [], "tutorial": [], "lazy": [], "reference/names/*": []}
html_static_path = ["static"]
html_css_files = ["site.css"]
html_search_scorer = str(Path(__file__).parent / "search_scorer.js")
MAX_PAGE_BYTES = 300_000  # of the reference


class Public(SphinxDirective):
    """``.. public:: weft.nn`` documents the public names of a room, a chapter for each module that defines some."""

    required_arguments = 1
    option_spec = {"from": directives.unchanged}

    def run(self) -> list[nodes.Node]:
        found = rooms.chapters(self.arguments[0], tuple(self.options.get("from", "").split()))
        if not found and self.arguments[0] != "rest":
            raise self.error(f"public: {self.arguments[0]} has no such names")
        known = self.env.metadata[self.env.docname].setdefault("known_names", {})
        is_split = Path(self.env.docname).name in rooms.SPLIT
        lines: list[str] = []
        for title, names in found:
            if len(found) > 1 or self.arguments[0] == "rest":
                lines += [title, "-" * len(title), ""]
            listed = [n.path for n in names if callable(n.value) and id(n.value) not in known]
            if len(listed) > 1 or is_split and listed:
                lines += [".. autosummary::", "   :nosignatures:", "", *(f"   ~{path}" for path in listed), ""]
            for name in names:
                if not (is_split and rooms.has_page(name)):
                    lines += rooms.entry(name, known)
        # with title styles of its own: a chapter lies below whatever section the directive stands in
        return self.parse_text_to_nodes(StringList(lines, source=self.env.docname), allow_section_headings=True)


def write_name_pages(app: Sphinx) -> None:
    """Write the pages of single names, which Sphinx then reads like the others."""
    texts = {rooms.NAMES / f"{path}.rst": text for path, text in rooms.name_pages().items()}
    rooms.NAMES.mkdir(exist_ok=True)
    for page in {*rooms.NAMES.iterdir()} - texts.keys():
        page.unlink()
    for page, text in texts.items():
        if not page.exists() or page.read_text() != text:  # an unchanged page is not read again
            page.write_text(text)


_returns: dict[str, list[str]] = {}


def before_napoleon(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:], _returns[name] = docstrings.ready(lines)


def after_napoleon(app: Sphinx, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    lines[:] = docstrings.with_returns(lines, _returns.pop(name, []))


def show_constructor(
    app: Sphinx, what: str, name: str, thing: Any, options: Any, signature: str | None, returns: str | None,
) -> tuple[str, None] | None:
    """Return the signature of ``__init__`` for classes whose ``__new__`` only checks keywords, which Sphinx prefers."""
    checks = what == "class" and getattr(thing, "__new__", None) is KeywordCheck.__new__
    return (rooms.signature(thing), None) if checks else None


class PlainText(TextLexer):
    """Graphs and kernels as weft prints them."""


def every_public_name_is_there(app: Sphinx, error: Exception | None) -> None:
    """The last check of a build: the index that other projects link to has every name."""
    if error is None and app.builder.name == "html":
        there = set(app.env.get_domain("py").objects)
        public = [n.path for room in rooms.rooms() for n in rooms.public(room)]
        missing = [path for path in public if path not in there and path not in rooms._OWN]
        if missing:
            raise SphinxError(f"not in the reference: {', '.join(missing)}")
        large = [p.stem for p in Path(app.outdir, "reference").rglob("*.html") if p.stat().st_size > MAX_PAGE_BYTES]
        if large:
            raise SphinxError(f"above {MAX_PAGE_BYTES:,} bytes, name them in SPLIT of docs/rooms.py: {', '.join(large)}")


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public", Public)
    for language in ("graph", "kernel"):
        app.add_lexer(language, PlainText)
    app.connect("builder-inited", write_name_pages)
    app.connect("autodoc-process-docstring", before_napoleon, priority=400)
    app.connect("autodoc-process-docstring", after_napoleon, priority=600)
    app.connect("autodoc-process-signature", show_constructor)
    app.connect("build-finished", every_public_name_is_there)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
