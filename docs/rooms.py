"""The public names of weft, room by room: what the reference pages show, and what the tests compare them with."""

from __future__ import annotations

import importlib
import inspect
import re
import types
from pathlib import Path
from typing import Any, NamedTuple

import weft

REFERENCE = Path(__file__).parent / "reference"
TITLES = {  # chapters of the pages; a module that is not named here has the first words of its docstring
    "weft.array": "The class",
    "weft.functions.creation.fill": "Creating arrays",
    "weft.dtypes.api": "Dtypes and how they mix",
    "weft.functions.elementwise.ufuncs": "Element by element",
    "weft.functions.elementwise.compositions": "Comparing, clipping, complex numbers, bits",
    "weft.functions.reductions.folds": "Sums, extremes, averages",
    "weft.functions.linalg.products": "Products and diagonals",
    "weft.functions.linalg.decompositions": "Norms, powers, solving, factorising",
    "weft.functions.fft.transforms": "Fourier transforms",
    "weft.functions.dtype_info.dtype_info": "Casts, kinds of dtypes, the array API",
    "weft.functions.shape.axes": "Shapes, axes, joining, splitting",
    "weft.functions.indexing.take_scatter": "Indexing",
    "weft.functions.indexing.where": "Choosing",
    "weft.functions.statistics.moments": "Covariances, folds that skip NaN",
    "weft.functions.statistics.samples": "Quantiles, histograms, differences",
    "weft.functions.polynomials.polynomials": "Polynomials, convolutions, windows",
    "weft.functions.indexing.edit": "Editing",
    "weft.functions.statistics.pad": "Padding",
    "weft.functions.numpy_compat.objects": "NumPy's classes, loops and questions",
    "weft.nn.quantize": "Rounding arrays to a format",
    "weft.nn.quantized.layers": "Quantized convolutions and embeddings",
    "weft.losses": "Losses",
    "weft.data.unigram": "Sampling words",
    "weft.train.diagnose": "Losses that are not finite",
    "weft.nn.precision": "Formats of a model's products",
    "weft.nn.watch": "Statistics of a model's numbers",
    "weft.tools.profile": "Where the time goes",
    "weft.functions.sorting.sort_search": "Sorting, searching, sets",
    "weft.functions.random.distributions": "Draws, orders, choices",
    "weft.functions.random.generators": "Generators",
    "weft.functions.random.state": "Seeds and keys",
    "weft.transforms.jit": "Compiling",
    "weft.transforms.grad": "Derivatives",
    "weft.transforms.vmap": "Many examples at once",
    "weft.transforms.control": "Native loops",
    "weft.transforms.tree": "Trees",
    "weft.transforms.settings": "Settings",
    "weft.eager.materialise": "Computing now",
    "weft.devices": "Threads and counters",
    "weft.tools.explain": "What will run",
    "weft.tools.bench": "How fast it runs",
    "weft.nn.module": "The base class",
    "weft.nn.containers": "Layers made of layers",
    "weft.nn.activations": "Activations",
    "weft.nn.convolution": "Convolutions",
    "weft.nn.pooling": "Pooling",
    "weft.nn.unpooling": "Unpooling",
    "weft.nn.padding": "Padding",
    "weft.nn.resize": "Resizing",
    "weft.nn.pixel_shuffle": "Pixel shuffles",
    "weft.nn.grid_sample": "Sampling between pixels",
    "weft.nn.normalization": "Normalisation",
    "weft.nn.weight_norms": "Normalised weights",
    "weft.nn.recurrent": "Recurrent layers",
    "weft.nn.recurrent_cells": "Single steps of recurrent layers",
    "weft.nn.transformer": "Transformer layers",
    "weft.nn.key_value_cache": "Cached keys and values",
    "weft.nn.rotary": "Rotary position embedding",
    "weft.nn.linear": "Linear maps",
    "weft.nn.reshape": "Flatten and Reshape",
    "weft.nn.neural_ode": "Differential equations",
    "weft.losses.likelihoods": "Likelihoods",
    "weft.losses.distances": "Distances",
    "weft.losses.alignments": "Alignments",
    "weft.losses.arguments": "Checks of labels",
    "weft.data.loader": "Loader",
    "weft.data.sets": "Data sets",
    "weft.data.augment": "Random changes of batches",
    "weft.train.fit": "Training",
    "weft.train.find_lr": "Finding a learning rate",
    "weft.ode.solve": "Solving",
    "weft.ode.runge_kutta": "Explicit methods",
    "weft.ode.implicit": "Implicit methods",
    "weft.ode.symplectic": "Symplectic methods",
    "weft.ode.control": "Step sizes",
    "weft.ode.events": "Events",
    "weft.dist.collectives": "Collectives and messages",
    "weft.dist.groups": "Some of the ranks",
    "weft.dist.world": "The job",
    "weft.ode.adjoint": "Gradients by the adjoint equation",
    "weft.optim.optimizer": "The base class",
    "weft.optim.update_rules": "Optimizers",
    "weft.optim.minimize": "Minimize",
    "weft.optim.quasi_newton": "Quasi-Newton methods",
    "weft.optim.least_squares": "Least squares",
    "weft.transforms.tree_functions": "Trees as a module",
}
# Reference pages that would be larger than 300 kB: each of their functions and classes has a page of its own
SPLIT = ("array", "math", "nn", "random", "shapes")
NAMES = REFERENCE / "names"  # these pages, which a build writes anew
_OWN = (
    "weft.e", "weft.euler_gamma", "weft.inf", "weft.nan", "weft.newaxis", "weft.pi", "weft.__version__",
    "weft.__array_api_version__",
)


class Name(NamedTuple):
    """A public name: ``weft.nn.Linear``, what it is, and the module that defines it."""

    path: str
    value: Any
    home: str


def public(room: str) -> list[Name]:
    """The public names of a module that users reach as ``weft...``; modules among them are rooms of their own."""
    held = _held(room)
    listed = getattr(held, "__all__", None)
    names = listed or [n for n, v in vars(held).items() if n[0] != "_" and getattr(v, "__module__", "") == held.__name__]
    out = []
    for name in names:
        value = getattr(held, name)
        if not isinstance(value, types.ModuleType):
            home = weft._HOME.get(name, "weft") if room == "weft" else getattr(value, "__module__", None) or held.__name__
            out.append(Name(f"{room}.{name}", value, home if home.startswith("weft") else held.__name__))
    return out


def rooms() -> list[str]:
    """Every public module, as users reach it: ``weft``, ``weft.nn``, ``weft.nn.init``, ..."""
    out, todo = [], ["weft"]
    while todo:
        room = todo.pop(0)
        out.append(room)
        held = _held(room)
        todo += [f"{room}.{n}" for n in getattr(held, "__all__", ()) if _of_weft(getattr(held, n))]
    return out


def _of_weft(value: Any) -> bool:
    """A module of weft; some of NumPy's are handed on."""
    return isinstance(value, types.ModuleType) and value.__name__.startswith("weft")


def pages() -> dict[str, list[tuple[str, tuple[str, ...]]]]:
    """For each reference page what its ``public`` directives ask for: (room, modules; none for all, "rest" for what is left)."""
    out = {}
    for page in sorted(REFERENCE.glob("*.rst")):
        found = re.findall(r"^\.\. public:: (\S+)(?:\n   :from: (.*(?:\n {4,}.*)*))?$", page.read_text(), re.MULTILINE)
        out[page.stem] = [(room, tuple(modules.split())) for room, modules in found]
    return out


def chapters(room: str, modules: tuple[str, ...] = ()) -> list[tuple[str, list[Name]]]:
    """(title, names) of a directive, a chapter for each module that defines some; "rest" is the rooms without a page."""
    if room == "rest":
        have = {where for asked in pages().values() for where, _ in asked}
        return [(f"wf{r[4:]}", names) for r in rooms() if r not in have and (names := public(r))]
    wanted = tuple(f"weft.{m}" for m in modules)
    if modules == ("rest",):
        taken = {f"weft.{m}" for asked in pages().values() for where, ms in asked if where == room for m in ms}
        choose = [n for n in public(room) if n.home not in taken and n.path not in _OWN]
    else:
        choose = [n for n in public(room) if not modules or n.home in wanted]
    order = [*wanted, *TITLES]
    homes = sorted(dict.fromkeys(n.home for n in choose), key=lambda h: order.index(h) if h in order else len(order))
    return [(title(h), [n for n in choose if n.home == h]) for h in homes]


def title(module: str) -> str:
    """A chapter's title."""
    words = (importlib.import_module(module).__doc__ or module).strip().splitlines()[0]
    return TITLES.get(module) or re.split(r"[:;.]\s|\.$", words)[0]


def entry(name: Name, known: dict[int, str]) -> list[str]:
    """The lines of reStructuredText that document one name; ``known`` has the names of functions documented before."""
    value = name.value
    first = known.setdefault(id(value), name.path)
    if first != name.path and inspect.isroutine(value):
        return [f".. py:function:: {name.path}{signature(value)}", "", f"   Another name of :func:`{first}`.", ""]
    if not _ours(value):
        return [f".. py:data:: {name.path}", f"   :value: {value!r}", ""]
    if inspect.isclass(value) and issubclass(value, Exception):
        return [f".. autoexception:: {name.path}", "   :show-inheritance:", ""]
    if inspect.isclass(value):
        more = ["   :inherited-members:"] if name.path in ("weft.Array", "weft.nn.Module") else []
        return [f".. autoclass:: {name.path}", "   :members:", *more, ""]
    return [f".. autofunction:: {name.path}", ""]


def name_pages() -> dict[str, str]:
    """Map the file name of each page of one name to its text. Other names of a function are on its page.

    File systems that ignore case hold one of ``weft.nn.Linear`` and ``weft.nn.linear``, so the function's file has a suffix.
    """
    out: dict[str, str] = {}
    for page in SPLIT:
        heading = (REFERENCE / f"{page}.rst").read_text().splitlines()[0]
        known: dict[int, str] = {}
        texts: dict[str, list[str]] = {}
        for where in pages()[page]:
            for name in (n for _, names in chapters(*where) for n in names if has_page(n)):
                lines = entry(name, known)
                texts.setdefault(known[id(name.value)] if lines[0].startswith(".. py:function") else name.path, []).extend(lines)
        for path, lines in texts.items():
            title = f"wf{path.removeprefix('weft')}"
            head = [":orphan:", "", title, "=" * len(title), "", f"From the reference: :doc:`{heading} </reference/{page}>`.", ""]
            has_twin = any(other != path and other.lower() == path for other in texts)
            out[f"{path}-function" if has_twin else path] = "\n".join([*head, *lines, ""])
    return out


def has_page(name: Name) -> bool:
    """Return whether a name of a split page has a page: it is a function or a class of weft."""
    return _ours(name.value)


def _ours(value: Any) -> bool:
    """Whether a value is documented where it is made: functions and classes of weft, but no dtypes, and not what NumPy made."""
    home = getattr(inspect.unwrap(value), "__module__", "weft")
    return callable(value) and not isinstance(value, weft.dtypes.DType) and home.startswith("weft")


def signature(value: Any) -> str:
    """Return the parameters of a function or class as text, without annotations."""
    found = inspect.signature(value)
    plain = [p.replace(annotation=inspect.Parameter.empty) for p in found.parameters.values()]
    return str(found.replace(parameters=plain, return_annotation=inspect.Signature.empty))


def _held(room: str) -> Any:
    held: Any = weft
    for part in room.split(".")[1:]:
        held = getattr(held, part)
    return held
