"""Cache of verdicts and kernels by form: they hold for all groups of the same form, in this graph and in later ones.

Layers of a net, steps of an unrolled loop and updates of parameters differ only in the arrays they read. A form contains
everything on which the analysis and the kernel of a group depend: its operations in order, their operands down to memory, with
parameters, shapes, formats and wiring, and which nodes are stored. It refers to no node, so a cached form keeps no graph alive.

A verdict may rest only on what a form contains (tests also plan without the cache). A rule that asks something new of a node
that a group reads adds it to the form.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from weft.graph.node import Node, frozen
from weft.graph.primitives.table import SCALAR
from weft.process.bounded_cache import BoundedCache
from weft.schedule.fusion_graph import FusionGraph
from weft.schedule.group_structure import Structure, structure_of
from weft.schedule.lower import LoweredKernel, lower
from weft.schedule.reasons import NotFusible

Form = tuple[int, ...]

# fuse() uses these caches under its lock. Weights are bytes; two generations of all three take 22 MB at most. A process with ever
# new shapes fills them (65 MB when small forms were weighed by their numbers alone). A graph of 2,000 nodes needs half a MB.
_WORDS = BoundedCache(2e6)  # description of a node -> its number
_VERDICTS = BoundedCache(4e6)  # form -> why no kernel can compute the group, "" if one can
_KERNELS = BoundedCache(5e6)  # form -> LoweredKernel of positions in the form
_WORD, _FORM, _NUMBER_OF_FORM, _NODE = 300, 300, 8, 600  # bytes of: a description, a form, each number of a form, a kernel's node
_NUMBER = count()


class GroupCache:
    """Verdicts and kernels for groups of one graph's nodes."""

    def __init__(self, view: FusionGraph) -> None:
        self.view = view
        self._target = _number(view.target)
        self._members = {
            n: _number((n.op, len(n.inputs), frozen(n.params), n.shape, n.dtype)) for n in view.real if not n.op.outside_kernels
        }
        self._analyses: dict[Node, Structure] = {}  # first node of a group -> its last analysis
        self._others: dict[Node, tuple[int, tuple[Node, ...]]] = {}

    def refuses(self, nodes: list[Node], stored: Sequence[Node]) -> str | None:
        """Return why a group cannot be one kernel, or None if it can. ``nodes`` are in the order of the graph."""
        form = self._form(nodes, stored)[0]
        verdict = _VERDICTS.get(form)
        if verdict is None:
            try:
                self._analyses[nodes[0]] = structure_of(self.view, nodes, stored, self._find_analysis(nodes))
                verdict = ""
            except NotFusible as boundary:
                verdict = boundary.reason
            _VERDICTS.put(form, verdict, _FORM + _NUMBER_OF_FORM * len(form))
        return verdict or None

    def _find_analysis(self, nodes: list[Node]) -> Structure | None:
        """Return the analysis of the first nodes of a group, if it can be extended: groups grow at their end."""
        analysis = self._analyses.get(nodes[0])
        return None if analysis is None or analysis.depends_on_stored or analysis.nodes != nodes[
            : len(analysis.nodes)
        ] else analysis

    def lower(self, nodes: Sequence[Node], stored: Sequence[Node]) -> LoweredKernel[Node]:
        """Return the kernel of a group. Raise NotFusible if the group cannot be one."""
        form, places = self._form(nodes, stored)
        cached = _KERNELS.get(form)
        if cached is None:
            lowered = lower(self.view, structure_of(self.view, nodes, stored))
            _KERNELS.put(form, lowered.rename(places.__getitem__), _FORM + _NODE * len(places))
            return lowered
        return cached.rename(list(places).__getitem__)

    def _form(self, nodes: Sequence[Node], stored: Sequence[Node]) -> tuple[Form, dict[Node, int]]:
        """Return the form of a group, and each node's position in it."""
        form = [self._target]
        places: dict[Node, int] = {}
        for node in nodes:
            self._add(node, self._members[node], node.inputs, form, places)
        form.append(-1)
        form += [places[n] for n in stored]
        return tuple(form), places

    def _add(self, node: Node, word: int, inputs: tuple[Node, ...], form: list[int], places: dict[Node, int]) -> None:
        """Append a node to a form, after the nodes below it."""
        for i in inputs:
            if i not in places:
                self._add(i, *(self._others.get(i) or self._describe_operand(i)), form, places)
        places[node] = len(places)
        form.append(word)
        for i in inputs:
            form.append(places[i])

    def _describe_operand(self, node: Node) -> tuple[int, tuple[Node, ...]]:
        """Return the number of a node that a group reads, and the operands that belong to the form.

        How the content of memory was computed is left out; for a reshape of memory its operand is included.
        """
        view = self.view
        word: tuple
        if view.is_real(node) or view.is_stored(node):
            operands = node.inputs if node.op.same_memory and node.value is None else ()
            scalar = (view.is_real(node),) if node.op is SCALAR else ()  # a number is memory only where a kernel stores it
            word = (scalar, node.op.moves, len(operands), node.shape, node.dtype)
        else:
            operands = node.inputs
            word = (node in view.uniform, node.op, len(operands), frozen(node.params), node.shape, node.dtype)
        result = self._others[node] = _number(word), operands
        return result


def _number(word: object) -> int:
    """Return the number of a description, the same for equal descriptions while they are cached."""
    number = _WORDS.get(word)
    if number is None:
        number = next(_NUMBER)
        _WORDS.put(word, number, _WORD)
    return number
