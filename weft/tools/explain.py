"""explain: list the kernels to which a function compiles, without running anything."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.array import Array
from weft.devices.base import Launches
from weft.eager.policy import find_small
from weft.errors import amount
from weft.graph.primitives.table import SCALAR
from weft.graph.source_lines import file_name
from weft.kernel.storage import RELAYOUT
from weft.placement.all_figures import rooms
from weft.placement.choose import Decision, choose
from weft.placement.device_figures import profiled_devices
from weft.runtime import execute
from weft.runtime.context import CONTEXT
from weft.schedule.kernel_info import describe_kernels_in_place
from weft.schedule.program import KernelInfo, Loop, Program, calls, find_hosts
from weft.transforms.jit import JittedFunction, jit
from weft.transforms.tracing import TracedCall


@dataclass(frozen=True, repr=False)
class Explanation:
    """The result of :func:`explain`.

    Attributes
    ----------
    kernels : one KernelInfo per kernel, in the order of execution; kernels in a loop are counted for one of its steps: ``name``,
        ``phases``, ``flops``, ``bytes`` (elements of inputs and outputs, each once), ``lines`` (the user's, as file:line),
        ``boundary`` (why what follows was not fused into it) and ``notes`` (precision of products, storage of images)
    host : names of the operations that run in NumPy; a loop with such operations is driven from Python, step by step
    program : the Program
    operations, at_once : number of operations in the function, and the number of those that are computed eagerly when the
        function is called without ``jit``
    placement : if figures of several devices are available (``$WEFT_PROFILE``, or those of ``wf.set_device("auto")``): the chosen
        ``device``, the ``estimates`` for each in seconds, and the ``reason``, for the present location of the arrays
    launches : on a GPU, the number of launches of each kernel, which may be split into parts
    """

    name: str
    kernels: tuple[KernelInfo, ...]
    host: tuple[str, ...]
    program: Program
    operations: int
    at_once: int
    placement: Decision | None = None
    launches: tuple[int, ...] = ()

    @property
    def relaid(self) -> int:
        """Bytes that are moved only to store arrays in another order in memory."""
        return sum([k.bytes for k in self.kernels if k.name == RELAYOUT])

    def __repr__(self) -> str:
        return f"Explanation({str(self).splitlines()[0]})"

    def _ipython_display_(self) -> None:
        """Display nothing in a notebook, since the table has been printed."""

    def __str__(self) -> str:
        count = len(self.kernels)
        memory = f", {amount(self.program.arena)}B of temporaries" if self.program.arena else ""
        host = f", {len(self.host)} in NumPy ({', '.join(self.host)})" if self.host else ""
        loops_ = [s for s in self.program.steps if isinstance(s, Loop)]
        steps = [s.steps for s in loops_ if not find_hosts(s.body)]
        loops = f", some in native loops of {' and '.join(steps)} steps" if steps else ""
        head = f"{self.name}: {count} kernel{'' if count == 1 else 's'}{loops}{host}{memory}"
        for loop in loops_:
            if inside := dict.fromkeys(h.name for h in find_hosts(loop.body)):
                head += f"\n  a loop of {loop.steps} steps is walked from Python, for NumPy computes {' and '.join(inside)}"
        if self.placement is not None:
            head += f"\n  on {self.placement.device}: {self.placement.reason}"
        if not count:
            return head
        rows = [("kernel", "phases", "flops", "bytes", "lines")]
        rows += [(k.name, str(k.phases), amount(k.flops), amount(k.bytes), _format_lines(k.lines)) for k in self.kernels]
        width = [max(len(r[c]) for r in rows) for c in range(4)]
        out = [head]
        for k, (row, kernel) in enumerate(zip(rows, (None, *self.kernels), strict=True), -1):
            cells = [row[0].ljust(width[0]), *(row[c].rjust(width[c]) for c in (1, 2, 3)), row[4]]
            out.append("  " + "  ".join(cells).rstrip())
            if kernel is not None:
                if self.launches and self.launches[k] != 1:
                    why = "its parts, and pieces of what no program can own whole"
                    out.append(f"    {self.launches[k]} launches on this device: {why}")
                out.extend(f"    {note}" for note in kernel.notes)
                out.extend(f"    not fused with what follows: {why}" for why in kernel.boundary)
        if self.relaid:
            out.append(f"  laying weights channels last moves {amount(self.relaid)}B")
        if self.at_once:
            out.append(f"  without jit {self.at_once} of its {self.operations} operations run at once, not compiled")
        return "\n".join(out)


def explain(f: Callable, *args: Any, **kwargs: Any) -> Explanation:
    """Print the kernels to which ``f(*args)`` compiles, without compiling or running them.

    Parameters
    ----------
    f : function, jitted or not
    args, kwargs : arguments of ``f``; of Arrays only shapes and dtypes matter

    Returns
    -------
    Explanation : with ``kernels``, each with name, phases, flops, bytes, lines, boundary

    Raises
    ------
    TraceError
        ``f`` reads the content of an array.
    DataError
        ``$WEFT_PROFILE`` names a file that is not a profile of devices.

    Examples
    --------
    >>> import weft as wf
    >>> x = wf.ones((128, 32))
    >>> len(wf.explain(lambda x: (x - x.mean()) / x.std(), x).kernels)  # doctest: +ELLIPSIS
    <lambda>: 1 kernel
    ...
    1
    """
    from weft.schedule.build import build

    jitted = f if isinstance(f, JittedFunction) else jit(f)
    traced = jitted.trace(*args, **kwargs)
    program = build(traced.graph, execute.device().target)
    host = tuple(s.name for s in find_hosts(program))
    name = getattr(f, "__name__", type(f).__name__)
    operations = [n for n in traced.graph.order if n.op.kind != "leaf"]
    at_once = 0 if isinstance(f, JittedFunction) else len(find_small(traced.graph))
    machines = profiled_devices() if CONTEXT.placement is CONTEXT.device else CONTEXT.placement.machines
    free_bytes = {} if CONTEXT.placement is CONTEXT.device else rooms(machines)
    array_places = _arrays(traced, jitted.flat(args, kwargs)[0]) if len(machines) > 1 else ()
    decision = choose(program, machines, array_places, free_bytes, len(traced.arrays)) if len(machines) > 1 else None
    device = execute.device()
    launches = tuple([device.launches_of(c.kernel) for c in calls(program)]) if isinstance(device, Launches) else ()
    kernels = describe_kernels_in_place(program, _find_overwritable_inputs(traced))
    explanation = Explanation(name, kernels, host, program, len(operations), at_once, decision, launches)
    print(explanation)
    return explanation


def _arrays(traced: TracedCall, leaves: Sequence[Any]) -> list[tuple[int, str]]:
    """Return the size in bytes and the device of each array that a call reads."""
    argument_nodes = [leaves[k].cell.node if isinstance(leaves[k], Array) else None for k in traced.arrays]
    nodes = [*argument_nodes, *[cell._node for cell in traced.captured_cells], *traced.fixed_nodes]
    inputs = [n for n in traced.graph.inputs if n.op is not SCALAR]
    nodes = [n for n in nodes if n is None or n.op is not SCALAR]
    device_names = ["cpu" if n is None or n.value is None else execute.owner(n.value).name for n in nodes]
    return [(n.nbytes, place) for n, place in zip(inputs, device_names, strict=True)]


def _find_overwritable_inputs(traced: TracedCall) -> frozenset[int]:
    """Return the inputs that a call may overwrite: captured cells that the function writes and does not return."""
    written = {id(target) for kind, target, _ in traced.writes if kind == "cell"}
    first = len(traced.arrays) + len(traced.scalars)
    returned = {k for kind, k in (*traced.results, *(s for _, _, s in traced.writes)) if kind == "in"}
    return frozenset(first + k for k, cell in enumerate(traced.captured_cells) if id(cell) in written) - returned


def _format_lines(lines: tuple[str, ...]) -> str:
    """Return the user's lines as text, each file named once: ``train.py:12,14``."""
    files: dict[str, list[str]] = {}
    for line in lines:
        file, _, number = line.rpartition(":")
        files.setdefault(file_name(file), []).append(number)
    return " ".join(f"{file}:{','.join(numbers)}" for file, numbers in files.items())
