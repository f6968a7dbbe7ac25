"""The site's pages without Sphinx: their cells run, their links lead somewhere, the reference has every public name.

``make doc`` builds the site itself, executes the same cells in notebooks and checks the reference once more.
"""

from __future__ import annotations

import ast
import collections
import importlib
import re
import sys
import types
from pathlib import Path
from typing import Any

import pytest

import weft as wf

DOCS = Path(__file__).parents[1] / "docs"
PAGES = sorted(p for p in DOCS.rglob("*.md") if "{code-cell}" in p.read_text())
NAMES = DOCS / "reference" / "names"  # pages of single names, which a build writes
GALLERY = DOCS / "gallery"  # pages that a build writes from these programs
PROGRAMS = DOCS.parent / "examples" / "gallery"
TEXTS = sorted(p for p in (*DOCS.rglob("*.md"), *DOCS.rglob("*.rst")) if NAMES not in p.parents and GALLERY not in p.parents)
ids = {"ids": lambda p: str(p.relative_to(DOCS))}


@pytest.fixture
def site(monkeypatch) -> Any:
    """A module of the site's own: ``site("rooms")``."""
    monkeypatch.syspath_prepend(str(DOCS))
    yield importlib.import_module
    for name in ("rooms", "docstrings", "gallery_order"):
        sys.modules.pop(name, None)


def cells(page: Path) -> list[str]:
    found = re.findall(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", page.read_text(), re.S | re.M)
    return [re.sub(r"\A(:.*\n)+", "", cell) for cell in found]


def run(code: str, name: str, namespace: dict[str, Any]) -> None:
    """As a notebook does: the last expression is shown."""
    tree = ast.parse(code)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), namespace)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), name, "eval"), namespace)
        repr(shown)
        if hasattr(shown, "_repr_html_"):
            shown._repr_html_()


@pytest.mark.parametrize("page", PAGES, **ids)
def test_cells_run(page: Path, tmp_path: Path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("weft.tools.profile.BUDGET", 0.02)  # seconds of measuring; the figures do not matter here
    threads = wf.get_num_threads()
    namespace: dict[str, Any] = {"__name__": "__main__"}
    try:
        for k, code in enumerate(cells(page), 1):
            run(code, f"{page.name}, cell {k}", namespace)
    finally:
        wf.set_num_threads(threads)
    assert capsys.readouterr().out


def test_a_failing_cell_fails(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```{code-cell}\n:tags: [remove-cell]\nx = 1\n```\ntext\n```{code-cell}\nassert x == 1\nx / 0\n```\n")
    first, second = cells(page)
    namespace: dict[str, Any] = {}
    run(first, "cell 1", namespace)
    with pytest.raises(ZeroDivisionError):
        run(second, "cell 2", namespace)


@pytest.mark.parametrize("page", PAGES, **ids)
def test_pages_say_that_they_are_notebooks(page: Path) -> None:
    head = re.match(r"---\n(.*?)^---\n\s*# ", page.read_text(), re.S | re.M)
    assert head and "file_format: mystnb\n" in head[1] and "  name: python3\n" in head[1]


def find_source(path: Path) -> Path:
    """Return the program that a build writes a page of the gallery from; of other paths the path."""
    path = path.resolve()
    return path if path.parent != GALLERY else PROGRAMS / ("GALLERY_HEADER.rst" if path.stem == "index" else f"{path.stem}.py")


def is_page(path: Path) -> bool:
    return any(find_source(path.with_name(f"{path.name}.{kind}")).exists() for kind in ("md", "rst"))


@pytest.mark.parametrize("text", TEXTS, **ids)
def test_links_lead_somewhere(text: Path) -> None:
    content = text.read_text()
    found = [link.partition("#")[0] for link in re.findall(r"\]\((?!https?:|#)([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", content))]
    missing = [link for link in found if not find_source(text.parent / link).exists()]
    for trees in re.findall(r"^```\{toctree\}\n(.*?)^```", content, re.S | re.M):
        missing += [n for n in trees.splitlines() if n and n[0] != ":" and "*" not in n and not is_page(text.parent / n)]
    named = re.findall(r":doc:`([^`<]+)`", content) if text.suffix == ".rst" else []
    missing += [n for n in named if not is_page(DOCS / n[1:] if n.startswith("/") else text.parent / n)]
    assert missing == []


def test_every_page_is_in_a_table_of_contents() -> None:
    reached = {DOCS / "index"}
    for text in TEXTS:
        for trees in re.findall(r"^```\{toctree\}\n(.*?)^```", text.read_text(), re.S | re.M):
            for name in (n for n in trees.splitlines() if n and n[0] != ":"):
                reached |= {p.with_suffix("").resolve() for p in text.parent.glob(f"{name}.*")}
    assert [str(t.relative_to(DOCS)) for t in TEXTS if t.with_suffix("") not in reached] == []


def test_the_gallery_has_every_program(site) -> None:
    assert {path.stem for path in PROGRAMS.glob("*.py")} == set(site("gallery_order").PAGES)


def test_every_environment_variable_is_described() -> None:
    read = {name for path in Path(wf.__file__).parent.rglob("*.py") for name in re.findall(r"\bWEFT_[A-Z_]+", path.read_text())}
    assert set(re.findall(r"\bWEFT_[A-Z_]+", (DOCS / "guide" / "environment.md").read_text())) == read


def public_names() -> set[str]:
    """Every name that a user reaches from ``wf``, by what the modules export."""
    names, todo = set(), [("weft", wf)]
    while todo:
        path, module = todo.pop()
        for name in getattr(module, "__all__", None) or [
            n for n, v in vars(module).items() if n[0] != "_" and getattr(v, "__module__", "") == module.__name__
        ]:
            value = getattr(module, name)
            if isinstance(value, types.ModuleType):
                if value.__name__.startswith("weft"):  # those of NumPy that are handed on have a reference of their own
                    todo.append((f"{path}.{name}", value))
            else:
                names.add(f"{path}.{name}")
    return names


def documented(rooms: Any) -> set[str]:
    found = [n.path for asked in rooms.pages().values() for one in asked for _, names in rooms.chapters(*one) for n in names]
    twice = [path for path, count in collections.Counter(found).items() if count > 1]
    assert not twice, f"documented on two pages: {twice}"
    return set(found)


def test_every_public_name_is_in_the_reference(site) -> None:
    rooms = site("rooms")
    constants = ("e", "euler_gamma", "inf", "nan", "newaxis", "pi", "__version__", "__array_api_version__")
    told = {f"weft.{name}" for name in constants}  # in the pages' text
    texts = "".join((DOCS / "reference" / f"{page}.rst").read_text() for page in rooms.pages())
    assert all(f"``{name.replace('weft', 'wf')}``" in texts for name in told)
    assert public_names() - told == documented(rooms)
    listed = re.findall(r"^```\{toctree\}\n(.*?)^```", (DOCS / "reference" / "index.md").read_text(), re.S | re.M)[0].split()
    assert set(rooms.pages()) <= set(listed)


def test_all_modules_of_a_page_are_seen(site) -> None:
    """Sphinx reads an option over several lines; what is counted as documented has to do so, too."""
    for page, asked in site("rooms").pages().items():
        named = re.findall(r"(?<=\s)(?:functions|transforms)\.\w+(?=\s)", (DOCS / "reference" / f"{page}.rst").read_text())
        assert set(named) <= {module for _, modules in asked for module in modules}, page


def test_the_modules_of_a_page_exist(site) -> None:
    """A module that was renamed would put its names among the rest, on the page of tools."""
    rooms = site("rooms")
    for page, asked in rooms.pages().items():
        for room, modules in asked:
            assert [m for m in modules if m != "rest" and not rooms.chapters(room, (m,))] == [], page
    rest = {name.home for _, names in rooms.chapters("weft", ("rest",)) for name in names}
    assert rest <= {"weft.devices", "weft.eager.materialise", "weft.nn.watch", *(m for m in rest if m.startswith("weft.tools."))}


def test_names_of_large_pages_have_pages(site) -> None:
    """Each callable of a split page is documented once: on its page, or on the page of the name that it repeats."""
    rooms = site("rooms")
    written = "\n".join(rooms.name_pages().values())
    found = collections.Counter(re.findall(r"^\.\. (?:auto|py:)\w+:: ([\w.]+)", written, re.M))
    names = [n for page in rooms.SPLIT for one in rooms.pages()[page] for _, part in rooms.chapters(*one) for n in part]
    assert found == collections.Counter(n.path for n in names if rooms.has_page(n))
    files = rooms.name_pages()
    assert "weft.arccos" not in files and "weft.arccos" in files["weft.acos"] and "weft.nn.linear-function" in files
    assert len({file.lower() for file in files}) == len(files)  # also where the file system ignores case


def test_a_new_name_is_in_the_reference_by_itself(site, monkeypatch) -> None:
    rooms = site("rooms")

    def fresh() -> None:
        """New."""

    monkeypatch.setattr(wf.losses, "fresh", fresh, raising=False)
    monkeypatch.setattr(wf.losses, "__all__", [*wf.losses.__all__, "fresh"])
    assert "weft.losses.fresh" in documented(rooms)
    room = types.ModuleType("weft.somewhere")
    room.new, room.__all__ = fresh, ["new"]  # type: ignore[attr-defined]
    monkeypatch.setattr(wf, "somewhere", room, raising=False)
    monkeypatch.setattr(wf, "__all__", [*wf.__all__, "somewhere"])
    assert "weft.somewhere.new" in documented(rooms)


def test_entries_say_what_a_thing_is(site) -> None:
    rooms = site("rooms")
    known: dict[int, str] = {}
    first = rooms.entry(rooms.Name("weft.acos", wf.acos, "weft.functions.elementwise.ufuncs"), known)
    assert first[0] == ".. autofunction:: weft.acos"
    again = rooms.entry(rooms.Name("weft.arccos", wf.acos, "weft.functions.elementwise.ufuncs"), known)
    options = "where=True, dtype=None, casting='same_kind', order='K', subok=True"
    assert again[0] == f".. py:function:: weft.arccos(x, /, out=None, {options})"
    assert ":func:`weft.acos`" in again[2]
    assert rooms.entry(rooms.Name("weft.nn.Linear", wf.nn.Linear, "weft.nn.linear"), known)[:2] == [
        ".. autoclass:: weft.nn.Linear", "   :members:"]
    assert rooms.entry(rooms.Name("weft.errors.DataError", wf.errors.DataError, ""), known)[0].startswith(".. autoexception::")
    assert "   :value: dtype('int8')" in rooms.entry(rooms.Name("weft.int8", wf.int8, ""), known)


def test_docstrings_are_made_ready_for_sphinx(site) -> None:
    docstrings = site("docstrings")
    given = """One line with *two* lone * asterisks, ``a * b`` and (N, *shape).

Parameters
----------
x : array
lr : float
    The rate.
groups : dict from a pattern to options of the parameters it matches, which may
    be a layer
seed, show : a sentence about two arguments of a function

Returns
-------
function of the same arguments: value, or
(value, aux)

Examples
--------
>>> 2 * 3
6""".splitlines()
    lines, field = docstrings.ready(given)
    assert field == [":returns: function of the same arguments: value, or (value, aux)"]
    made = ["Text.", "", ".. rubric:: Examples"]
    assert docstrings.with_returns(made, field) == [*made[:2], "", *field, "", made[2]]
    assert "\n".join(lines) == r"""One line with \*two\* lone \* asterisks, ``a * b`` and (N, \*shape).

Parameters
----------
x : array
lr : float
    The rate.
groups
    dict from a pattern to options of the parameters it matches, which may
    be a layer
seed, show
    a sentence about two arguments of a function

Examples
--------
>>> 2 * 3
6"""
