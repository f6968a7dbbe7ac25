"""Print values of the kernel IR as expressions on a tile: indices, masks, loads, stores, checks.

Offsets have 32 bits if the buffer is small enough, otherwise 64: intermediate sums may wrap, the result is right. Guards and
integer values of indices are computed in 64 bits if an intermediate sum needs them.

A launch that checks indices receives a record. Its first word is 0 until a check fails, then the number of the check plus one;
one more word for each check holds the failed index. Any lane's failure may be recorded, so these are plain stores.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

from weft.devices.cuda.arguments import Arguments, Launch
from weft.devices.cuda.formats import convert_loaded, convert_stored, memory_literal, round_to_format, typed_literal
from weft.devices.cuda.machine_operations import operation
from weft.dtypes.formats import BOOL, INT64, Format
from weft.kernel.expressions import operands
from weft.kernel.ir import Access, Affine, Axis, Store, Value

LIMIT = 2**31  # 32-bit indices are smaller than this


def wide(n: int) -> bool:
    """Return whether numbers below n need 64 bits."""
    return n >= LIMIT


@dataclass(frozen=True, slots=True)
class Expression:
    """A printed expression. dims: dimensions of the tile along which it varies; level: the loop that contains it.

    A scalar has no dims; an expression that varies along one dimension is a block of one row or column.
    """

    text: str
    dims: frozenset[int] = frozenset()
    level: int = 0


def merge_dims(parts: Iterable[Expression]) -> tuple[frozenset[int], int]:
    """Return (dims, level) of an expression with these operands."""
    parts = tuple(parts)
    return frozenset().union(*[e.dims for e in parts]), max([e.level for e in parts], default=0)


class Printer:
    """Writes the text of a launch: values and stores on a tile, in nested loops, and one name for each distinct expression.

    An expression is printed once, in the outermost loop possible. Equal texts are equal values, since no name is assigned twice.

    axes: axis -> its expression.
    accs: accumulator -> its expression.
    masks: dimension -> mask of the tile's part inside the extent.
    places: dimension -> the tile's positions along it.
    extents: of all axes.
    """

    def __init__(self, axes: tuple[Axis, ...] = ()) -> None:
        self.arguments = Arguments()
        self._lines: list[list[str]] = [[]]
        self._names: list[dict[str, Expression]] = [{}]
        self._count = 0
        self.axes: dict[int, Expression] = {}
        self.accs: dict[int, Expression] = {}
        self.masks: dict[int, Expression] = {}
        self.places: dict[int, Expression] = {}
        self.extents = {a.id: a.extent for a in axes}
        self._values: dict[int, tuple[Value, Expression]] = {}

    def forget(self) -> None:
        """Discard printed values, because axes or masks have changed. Equal texts get their old names again."""
        self._values = {}

    @property
    def level(self) -> int:
        """Return the number of open loops."""
        return len(self._lines) - 1

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def put(self, text: str, dims: Iterable[int] = (), level: int = 0) -> Expression:
        """Return the name of an expression, assigning it in the loop ``level`` if no open loop up to that level has done so."""
        for names in self._names[: level + 1]:
            if text in names:
                return names[text]
        name = self.fresh("v")
        self._lines[level].append(f"{name} = {text}")
        expression = self._names[level][text] = Expression(name, frozenset(dims), level)
        return expression

    def line(self, text: str, level: int | None = None) -> None:
        self._lines[-1 if level is None else level].append(text)

    def open(self) -> None:
        """Begin a loop."""
        self._lines.append([])
        self._names.append({})

    def close(self, head: str) -> None:
        """End the loop, whose first line is ``head``."""
        body = self._lines.pop()
        self._names.pop()
        self.forget()
        self._lines[-1] += [head, *("    " + line for line in body)]

    def launch(self, grid: tuple[int, int], warps: int = 4, stages: int = 3) -> Launch:
        """Return the written lines as a launch."""
        (lines,) = self._lines
        return Launch(tuple(lines), self.arguments.order, grid, warps, stages)

    # ---- indices

    def _fits_32_bits(self, a: Affine) -> bool:
        """Return whether every intermediate sum of an index fits into 32 bits."""
        reach = abs(a.const) + sum(abs(c) * max(self.extents[axis] - 1, 1) for axis, c in a.terms)
        return not a.gather and not wide(reach)

    def affine(self, a: Affine, far: bool) -> Expression:
        """Return an index. far: compute it in 64 bits."""
        parts: list[str] = []
        summands: list[Expression] = []
        for axis, c in a.terms:
            e = self.axes[axis]
            summands.append(e)
            parts.append(self._multiply(f"{e.text}.to(tl.int64)" if far else e.text, c))
        for v, c in a.gather:
            e = self.value(v)
            summands.append(e)
            parts.append(self._multiply(e.text if far else f"{e.text}.to(tl.int32)", c))
        if a.const or not parts:
            parts.append(self.arguments.integer(a.const))
        if len(parts) == 1 and summands and parts[0] == summands[0].text:
            return summands[0]
        if not summands:
            bits = 64 if far else 32
            is_name = not parts[0].lstrip("-").isdigit()
            return self.put(f"{parts[0]}.to(tl.int{bits})" if is_name else f"tl.full([], {parts[0]}, tl.int{bits})")
        return self.put(" + ".join(parts), *merge_dims(summands))

    def _multiply(self, text: str, c: int) -> str:
        return text if c == 1 else f"{text} * {self.arguments.integer(c)}"

    def mask(self, access: Access, at: Expression) -> Expression | None:
        """Return the mask of an access; None if it needs none."""
        conditions = [self.is_within(index, low, high, not self._fits_32_bits(index)) for index, low, high in access.guard]
        return self.join_masks(merge_dims([at, *conditions])[0], conditions)

    def is_within(self, index: Affine, low: int, high: int, far: bool) -> Expression:
        """Return whether low <= index < high."""
        i, first, end = self.affine(index, far), self.arguments.integer(low), self.arguments.integer(high)
        return self.put(f"({i.text} >= {first}) & ({i.text} < {end})", i.dims, i.level)

    def broadcast_tile(self, e: Expression, rows: int, columns: int, level: int) -> str:
        """Return an expression as a tile of both dimensions."""
        return e.text if e.dims == {0, 1} else self.put(f"tl.broadcast_to({e.text}, [{rows}, {columns}])", (0, 1), level).text

    def join_masks(self, dims: frozenset[int], also: list[Expression]) -> Expression | None:
        """Return the conjunction of ``also`` and of the tile's masks along ``dims``; None if empty."""
        conditions = [*also, *(self.masks[d] for d in sorted(dims) if d in self.masks)]
        if not conditions:
            return None
        return conditions[0] if len(conditions) == 1 else self.put(
            " & ".join(e.text for e in conditions), *merge_dims(conditions)
        )

    def pointer(self, access: Access) -> tuple[str, Expression | None, Expression]:
        """Return (address, mask, offset) of an access."""
        flat = access.flat()
        at = self.affine(flat, wide(prod(access.buffer.shape)))
        mask = self.mask(access, at)
        if mask is not None and not mask.dims <= at.dims:  # a guard along an axis that the offset lacks
            at = self.put(f"tl.where({mask.text}, {at.text}, 0)", *merge_dims([mask, at]))
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
            self._values[id(v)] = v, self._print_value(v)
        return self._values[id(root)][1]

    def _print_value(self, v: Value) -> Expression:
        form, op = v.dtype, v.op
        if op == "load":
            return self._print_load(v.attr, form)
        if op == "const":
            return self.put(self.arguments.number(v.attr, form) or typed_literal(v.attr, form))
        if op == "scalar":
            name = self.arguments.scalar(v.attr, form)
            return self.put(f"{name} != 0" if form is BOOL else name)
        if op == "index":
            far = not self._fits_32_bits(v.attr)
            i = self.affine(v.attr, far)
            return i if far else self.put(f"{i.text}.to(tl.int64)", i.dims, i.level)
        if op == "acc":
            return self.accs[v.attr]
        if op == "check":
            return self._print_check(v)
        args = [self.value(a) for a in v.args]
        return self.put(operation(v, [e.text for e in args]), *merge_dims(args))

    def _print_load(self, access: Access, form: Format) -> Expression:
        address, mask, offset = self.pointer(access)
        text = f"tl.load({address})"
        if mask is not None:
            text = f"tl.load({address}, mask={mask.text}, other={memory_literal(access.fill if access.guard else 0, form)})"
        if form is BOOL:
            text = f"({text} != 0)"
        return self.put(convert_loaded(text, form), *merge_dims([offset] if mask is None else [offset, mask]))

    def _print_check(self, v: Value) -> Expression:
        index, matters = (self.value(a) for a in v.args)
        limit = self.arguments.number(v.attr.extent, INT64) or str(v.attr.extent)
        wrong = self.put(f"({index.text} < 0) | ({index.text} >= {limit})", index.dims, index.level)
        if v.attr.site is not None:
            dims, level = merge_dims([wrong, matters])
            also = [wrong] if v.args[1].op == "const" and v.args[1].attr else [wrong, matters]
            bad = self.join_masks(dims, also)
            assert bad is not None
            record, site = self.arguments.faults(), v.attr.site
            zero = self.put(f"tl.where({bad.text}, 0, 0)", bad.dims, bad.level).text
            failed_index = self.put(f"{index.text} + {zero}", *merge_dims([index, bad])).text
            self.line(f"tl.store({record} + {site + 1} + {zero}, {failed_index}, mask={bad.text})", bad.level)
            self.line(f"tl.store({record} + {zero}, {site + 1}, mask={bad.text})", bad.level)
        return self.put(f"tl.where({wrong.text}, {index.text} * 0, {index.text})", index.dims, index.level)

    # ---- stores

    def target(self, store: Store, value: Expression, every: bool = False) -> tuple[str, Expression | None]:
        """Return the address of a store, broadcast to its value's dimensions, and its mask. every: broadcast to the whole tile.
        """
        address, mask, at = self.pointer(store.access)
        required = self.places if every else value.dims
        missing = [d for d in sorted(required) if d not in at.dims]  # a dropped axis of extent 1 is still a dimension of the tile
        if missing:
            address += "".join(f" + {self.places[d].text} * 0" for d in missing)
            mask = self.join_masks(frozenset(missing), [mask] if mask is not None else [])
        return address, mask

    def store(self, store: Store) -> None:
        value = self.value(store.value)
        where, mask = self.target(store, value)
        self.write(where, value.text, store.access.buffer.dtype, mask)

    def write(self, where: str, value: str, form: Format, mask: Expression | None) -> None:
        text = convert_stored(value, form)
        self.line(f"tl.store({where}, {text}" + (f", mask={mask.text})" if mask is not None else ")"))

    def finish(self, name: str, form: Format, accum: Format) -> str:
        """Return an accumulator in the format of its result."""
        if form is accum:
            return name
        return round_to_format(name, form) if form.narrow else f"{name}.to(tl.{form.name})"
