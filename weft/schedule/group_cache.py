"""Groups of one form: what was found out about one of them holds for all, in this graph and in later ones.

Layers of a net, steps of an unrolled loop and updates of parameters differ only in which arrays they read. A form is all that
the analysis and the kernel of a group rest on: its operations in order, and what they read, down to memory, with parameters,
shapes, formats and wiring; and which of them are stored. It names no node, so that keeping it keeps no graph.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from weft.graph.node import Node, frozen
from weft.graph.primitives.table import SCALAR
from weft.process.bounded_cache import Recent
from weft.schedule.fusion_graph import View
from weft.schedule.group_structure import Structure, structure_of
from weft.schedule.lower import Lowered, lower
from weft.schedule.reasons import Boundary

Form = tuple[int, ...]

# fuse() uses them under its lock. Weights are bytes, and two generations of all three are 22 MB at most: a process of ever new
# shapes fills them, which took 65 MB where small forms weighed no more than their numbers. A graph of 2,000 nodes needs half a MB
_WORDS = Recent(2e6)  # what a form says of a node by itself -> a number for it
_VERDICTS = Recent(4e6)  # form -> why no kernel can hold the group; "" where one can
_KERNELS = Recent(5e6)  # form -> Lowered of places in the form
_WORD, _FORM, _NUMBER_OF_FORM, _NODE = 300, 300, 8, 600  # bytes: a word, a form and each of its numbers, a node of a kernel
_NUMBER = count()


class Forms:
    """Verdicts and kernels of groups of one graph's nodes."""

    def __init__(self, view: View) -> None:
        self.view = view
        self._target = _number(view.target)
        self._members = {
            n: _number((n.op, len(n.inputs), frozen(n.params), n.shape, n.dtype)) for n in view.real if not n.op.outside_kernels
        }
        self._analysed: dict[Node, Structure] = {}  # first node of a group -> the last analysis of it
        self._others: dict[Node, tuple[int, tuple[Node, ...]]] = {}

    def refuses(self, nodes: list[Node], stored: Sequence[Node]) -> str | None:
        """Why a group cannot be one kernel; None where it can. ``nodes`` are in the order of the graph."""
        form = self._form(nodes, stored)[0]
        found = _VERDICTS.get(form)
        if found is None:
            try:
                self._analysed[nodes[0]] = structure_of(self.view, nodes, stored, self._known(nodes))
                found = ""
            except Boundary as boundary:
                found = boundary.reason
            _VERDICTS.put(form, found, _FORM + _NUMBER_OF_FORM * len(form))
        return found or None

    def _known(self, nodes: list[Node]) -> Structure | None:
        """The analysis of the first nodes of a group: groups grow at their end."""
        known = self._analysed.get(nodes[0])
        return None if known is None or known.asked or known.nodes != nodes[: len(known.nodes)] else known

    def lowered(self, nodes: Sequence[Node], stored: Sequence[Node]) -> Lowered[Node]:
        """The kernel of a group; raises Boundary where it cannot be one."""
        form, places = self._form(nodes, stored)
        found = _KERNELS.get(form)
        if found is None:
            made = lower(self.view, structure_of(self.view, nodes, stored))
            _KERNELS.put(form, made.renamed(places.__getitem__), _FORM + _NODE * len(places))
            return made
        return found.renamed(list(places).__getitem__)

    def _form(self, nodes: Sequence[Node], stored: Sequence[Node]) -> tuple[Form, dict[Node, int]]:
        """The form, and the place in it of each node."""
        form = [self._target]
        places: dict[Node, int] = {}
        for node in nodes:
            self._add(node, self._members[node], node.inputs, form, places)
        form.append(-1)
        form += [places[n] for n in stored]
        return tuple(form), places

    def _add(self, node: Node, word: int, inputs: tuple[Node, ...], form: list[int], places: dict[Node, int]) -> None:
        for i in inputs:
            if i not in places:
                self._add(i, *(self._others.get(i) or self._other(i)), form, places)
        places[node] = len(places)
        form.append(word)
        for i in inputs:
            form.append(places[i])

    def _other(self, node: Node) -> tuple[int, tuple[Node, ...]]:
        """What a form says of a node that a group reads: of memory not how it was made, of a reshape of memory what it shows."""
        view = self.view
        word: tuple
        if view.is_real(node) or view.stored(node):
            shown = node.inputs if node.op.same_memory and node.value is None else ()
            scalar = (view.is_real(node),) if node.op is SCALAR else ()  # a number is memory only where a kernel stores it
            word = (scalar, node.op.moves, len(shown), node.shape, node.dtype)
        else:
            shown = node.inputs
            word = (node in view.uniform, node.op, len(shown), frozen(node.params), node.shape, node.dtype)
        found = self._others[node] = _number(word), shown
        return found


def _number(word: object) -> int:
    found = _WORDS.get(word)
    if found is None:
        found = next(_NUMBER)
        _WORDS.put(word, found, _WORD)
    return found
