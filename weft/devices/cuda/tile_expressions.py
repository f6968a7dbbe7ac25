"""Values of the kernel IR as expressions on a tile: indices, masks, loads, stores, checks.

Indices are 32 bits wide where what they point into is small enough: sums that wrap on the way are right in the end. Where more
is needed they are 64 bits wide.

Checked indices: the record that a launch is given has a word that is not 0 once a site found an index out of range (the number
of a site, plus one), and a word for each site with such an index. Any lane's will do, so they are plain stores.
"""

from __future__ import annotations

from math import prod

from weft.devices.cuda.formats import in_memory, loaded, rounded, stored, typed
from weft.devices.cuda.machine_operations import operation
from weft.devices.cuda.text import Expression, Text, joined
from weft.dtypes.formats import BOOL, INT64, Format
from weft.kernel.expressions import operands
from weft.kernel.ir import Access, Affine, Axis, Store, Value

LIMIT = 2**31  # what 32 bits do not count


def wide(n: int) -> bool:
    """Whether numbers below n need 64 bits."""
    return n >= LIMIT


class Printer(Text):
    """axes: axis -> what stands for it; accs: accumulator -> its value; masks: dimension -> where the tile lies inside;
    places: dimension -> numbers along it, for pointers that do not vary along it; extents: of all axes."""

    def __init__(self, axes: tuple[Axis, ...] = ()) -> None:
        super().__init__()
        self.axes: dict[int, Expression] = {}
        self.accs: dict[int, Expression] = {}
        self.masks: dict[int, Expression] = {}
        self.places: dict[int, Expression] = {}
        self.extents = {a.id: a.extent for a in axes}
        self._values: dict[int, tuple[Value, Expression]] = {}

    def forget(self) -> None:
        """Axes or masks mean something else from here on: values are printed anew (and found again, where the text is equal)."""
        self._values = {}

    def close(self, head: str) -> None:
        super().close(head)
        self.forget()

    # ---- indices

    def _within(self, a: Affine) -> bool:
        """Whether every number on the way fits into 32 bits."""
        reach = abs(a.const) + sum(abs(c) * max(self.extents[axis] - 1, 1) for axis, c in a.terms)
        return not a.gather and not wide(reach)

    def affine(self, a: Affine, far: bool) -> Expression:
        """An index; ``far``: it is counted in 64 bits."""
        parts: list[str] = []
        seen: list[Expression] = []
        for axis, c in a.terms:
            e = self.axes[axis]
            seen.append(e)
            parts.append(self._times(f"{e.text}.to(tl.int64)" if far else e.text, c))
        for v, c in a.gather:
            e = self.value(v)
            seen.append(e)
            parts.append(self._times(e.text if far else f"{e.text}.to(tl.int32)", c))
        if a.const or not parts:
            parts.append(self.arguments.integer(a.const))
        if len(parts) == 1 and seen and parts[0] == seen[0].text:
            return seen[0]
        if not seen:
            bits = 64 if far else 32
            named = not parts[0].lstrip("-").isdigit()
            return self.put(f"{parts[0]}.to(tl.int{bits})" if named else f"tl.full([], {parts[0]}, tl.int{bits})")
        return self.put(" + ".join(parts), *joined(seen))

    def _times(self, text: str, c: int) -> str:
        return text if c == 1 else f"{text} * {self.arguments.integer(c)}"

    def mask(self, access: Access, at: Expression) -> Expression | None:
        """Where memory is touched; None: everywhere."""
        seen = []
        for index, low, high in access.guard:
            i = self.affine(index, not self._within(index))
            low_text, high_text = self.arguments.integer(low), self.arguments.integer(high)
            seen.append(self.put(f"({i.text} >= {low_text}) & ({i.text} < {high_text})", i.dims, i.level))
        return self.inside(joined([at, *seen])[0], seen)

    def inside(self, dims: frozenset[int], also: list[Expression]) -> Expression | None:
        """All of ``also``, and within the tile along some dimensions."""
        seen = [*also, *(self.masks[d] for d in sorted(dims) if d in self.masks)]
        if not seen:
            return None
        return seen[0] if len(seen) == 1 else self.put(" & ".join(e.text for e in seen), *joined(seen))

    def pointer(self, access: Access) -> tuple[str, Expression | None, Expression]:
        """(where an access points, its mask, its offset)."""
        flat = access.flat()
        at = self.affine(flat, wide(prod(access.buffer.shape)))
        mask = self.mask(access, at)
        if mask is not None and not mask.dims <= at.dims:  # a guard of an axis that the offset does not have
            at = self.put(f"tl.where({mask.text}, {at.text}, 0)", *joined([mask, at]))
        return f"{self.arguments.buffer(access.buffer)} + {at.text}", mask, at

    # ---- values

    def value(self, root: Value) -> Expression:
        stack = [root]
        while stack:
            v = stack[-1]
            if id(v) in self._values:
                stack.pop()
                continue
            below = [a for a in operands(v) if id(a) not in self._values]
            if below:
                stack.extend(below)
                continue
            stack.pop()
            self._values[id(v)] = v, self._one(v)
        return self._values[id(root)][1]

    def _one(self, v: Value) -> Expression:
        form, op = v.dtype, v.op
        if op == "load":
            return self._load(v.attr, form)
        if op == "const":
            return self.put(self.arguments.number(v.attr, form) or typed(v.attr, form))
        if op == "scalar":
            name = self.arguments.scalar(v.attr, form)
            return self.put(f"{name} != 0" if form is BOOL else name)
        if op == "index":
            far = not self._within(v.attr)
            i = self.affine(v.attr, far)
            return i if far else self.put(f"{i.text}.to(tl.int64)", i.dims, i.level)
        if op == "acc":
            return self.accs[v.attr]
        if op == "check":
            return self._check(v)
        found = [self.value(a) for a in v.args]
        return self.put(operation(v, [e.text for e in found]), *joined(found))

    def _load(self, access: Access, form: Format) -> Expression:
        where, mask, at = self.pointer(access)
        text, (dims, level) = f"tl.load({where})", joined([at])
        if mask is not None:
            fill = access.fill if access.guard else 0
            other = in_memory(fill, form)
            text, (dims, level) = f"tl.load({where}, mask={mask.text}, other={other})", joined([at, mask])
        if form is BOOL:
            text = f"({text} != 0)"
        return self.put(loaded(text, form), dims, level)

    def _check(self, v: Value) -> Expression:
        index, matters = (self.value(a) for a in v.args)
        limit = self.arguments.number(v.attr.extent, INT64) or str(v.attr.extent)
        wrong = self.put(f"({index.text} < 0) | ({index.text} >= {limit})", index.dims, index.level)
        if v.attr.site is not None:
            dims, level = joined([wrong, matters])
            also = [wrong] if v.args[1].op == "const" and v.args[1].attr else [wrong, matters]
            bad = self.inside(dims, also)
            assert bad is not None
            record, site = self.arguments.faults(), v.attr.site
            zero = self.put(f"tl.where({bad.text}, 0, 0)", bad.dims, bad.level).text
            what = self.put(f"{index.text} + {zero}", *joined([index, bad])).text
            self.line(f"tl.store({record} + {site + 1} + {zero}, {what}, mask={bad.text})", bad.level)
            self.line(f"tl.store({record} + {zero}, {site + 1}, mask={bad.text})", bad.level)
        return self.put(f"tl.where({wrong.text}, {index.text} * 0, {index.text})", index.dims, index.level)

    # ---- stores

    def target(self, store: Store, value: Expression, every: bool = False) -> tuple[str, Expression | None]:
        """Where a store points, as wide as its value, and its mask. every : as wide as the tile"""
        where, mask, at = self.pointer(store.access)
        wanted = self.places if every else value.dims
        missing = [d for d in sorted(wanted) if d not in at.dims]  # an axis of extent one was dropped: the tile has it
        if missing:
            where += "".join(f" + {self.places[d].text} * 0" for d in missing)
            mask = self.inside(frozenset(missing), [mask] if mask is not None else [])
        return where, mask

    def store(self, store: Store) -> None:
        value = self.value(store.value)
        where, mask = self.target(store, value)
        self.write(where, value.text, store.access.buffer.dtype, mask)

    def write(self, where: str, value: str, form: Format, mask: Expression | None) -> None:
        text = stored(value, form)
        self.line(f"tl.store({where}, {text}" + (f", mask={mask.text})" if mask is not None else ")"))

    def finished(self, name: str, form: Format, accum: Format) -> str:
        """An accumulator as it is read: in the format of its result."""
        if form is accum:
            return name
        return rounded(name, form) if form.narrow else f"{name}.to(tl.{form.name})"
