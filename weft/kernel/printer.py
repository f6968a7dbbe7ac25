"""Print kernels as text: for people, for golden tests, and as the cache key of compiled code."""

from __future__ import annotations

from weft.kernel.ir import Access, Affine, Axis, Buffer, Chain, Contraction, Kernel, Reduction, Stage, Store, Value
from weft.kernel.target import Order


class _Text:
    """The printed lines. Values are numbered when they are first met, so shared expressions are printed once."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.by_id: dict[int, str] = {}
        self.name_of: dict[str, str] = {}

    def affine(self, a: Affine, indent: str) -> str:
        parts = [f"a{axis}" if coef == 1 else f"-a{axis}" if coef == -1 else f"{coef}*a{axis}" for axis, coef in a.terms]
        for value, coef in a.gather:
            name = self.value(value, indent)
            parts.append(f"[{name}]" if coef == 1 else f"{coef}*[{name}]")
        if a.const or not parts:
            parts.append(str(a.const))
        return "+".join(parts).replace("+-", "-")

    def element(self, access: Access, indent: str) -> str:
        return f"{buffer_name(access.buffer)}[{', '.join(self.affine(i, indent) for i in access.index)}]"

    def guards(self, access: Access, indent: str) -> str:
        guards = ", ".join(f"{lo}<={self.affine(i, indent)}<{hi}" for i, lo, hi in access.guard)
        return f" if {guards}" if guards else ""

    def access(self, access: Access, indent: str) -> str:
        text = self.element(access, indent) + self.guards(access, indent)
        return f"{text} else {access.fill!r}" if access.guard else text

    def value(self, v: Value, indent: str) -> str:
        # iterative: chains of elementwise operations may exceed Python's recursion limit
        if id(v) in self.by_id:
            return self.by_id[id(v)]
        stack = [(v, False)]
        while stack:
            node, ready = stack.pop()
            if id(node) in self.by_id:
                continue
            if not ready:
                stack.append((node, True))
                stack.extend((a, False) for a in reversed(node.args) if id(a) not in self.by_id)
                continue
            self.by_id[id(node)] = self._define(node, indent)
        return self.by_id[id(v)]

    def _define(self, v: Value, indent: str) -> str:
        if v.op == "acc":
            return f"acc{v.attr}"
        if v.op == "const":
            return f"{v.attr!r}:{v.dtype.name}"
        if v.op == "scalar":
            return f"s{v.attr}"
        if v.op == "load":
            text = f"load {self.access(v.attr, indent)}"
        elif v.op == "index":
            text = f"index {self.affine(v.attr, indent)}"
        elif v.op == "check":
            index, matters = (self.by_id[id(a)] for a in v.args)
            site = "known" if v.attr.site is None else f"site {v.attr.site}"
            text = f"check {index} in {v.attr.extent} where {matters} [{site}]"
        else:
            text = f"{v.op} {' '.join(self.by_id[id(a)] for a in v.args)}"
            if v.op in ("cast", "bitcast") or v.op.startswith("round_"):
                text += f" -> {v.dtype.name}"
        name = self.name_of.get(text)
        if name is None:
            name = self.name_of[text] = f"v{len(self.name_of)}"
            self.lines.append(f"{indent}{name} = {text}")
        return name


def buffer_name(b: Buffer) -> str:
    return f"b{b.id}" if b.scope == "arg" else f"k{b.id}"


def _axes(axes: tuple[Axis, ...]) -> str:
    return ", ".join(f"a{a.id}<{a.extent}" for a in axes) or "-"


def _buffer(b: Buffer) -> str:
    return f"{buffer_name(b)} {b.dtype.name}{list(b.shape)}" + (f" lying {list(b.order)}" if b.order else "")


def _store(t: _Text, s: Store, indent: str) -> None:
    value = t.value(s.value, indent)
    where, guards = t.element(s.access, indent), t.guards(s.access, indent)
    sign = {"add": "+=", "add_unordered": "+=", "own": ":="}.get(s.mode, "=")
    order = " in any order" if s.mode == "add_unordered" else ""
    t.lines.append(f"{indent}{where} {sign} {value}{order}{guards}")


def _reduction(t: _Text, r: Reduction, indent: str) -> None:
    value = t.value(r.value, indent)
    flags = (" carried" if r.is_carried else "") + (" running" if r.running else "")
    t.lines.append(
        f"{indent}acc{r.id} = {r.monoid} {value} over {_axes(r.axes)}{flags}"
        f" [{r.accum.name} -> {r.dtype.name}, {_order(r.order)}{_rounding(r)}]"
    )


def _order(order: Order | None) -> str:
    return "any order" if order is None else f"lanes {order.lanes}, block {order.block}"


def _rounding(x: Contraction | Reduction) -> str:
    short = "" if x.precision == "float32" else f", {x.precision}"
    if isinstance(x, Contraction) and x.algorithm != "direct":
        short += f", {x.algorithm}"
    return short + ("" if x.accumulator is None else f", {x.accumulator}")


def _chain(t: _Text, c: Chain, indent: str) -> None:
    t.lines.append(f"    chain {c.accum.name}: batch {_axes(c.batch)}; rows {_axes(c.rows)}; columns {_axes(c.columns)}")
    for i in c.inner:
        a, b = t.value(i.a, indent), t.value(i.b, indent)
        t.lines.append(f"{indent}acc{i.id} = sum {a} * {b} over {_axes(i.k)}")
    for affine, lo, hi in c.guards:
        t.lines.append(f"{indent}where {lo}<={t.affine(affine, indent)}<{hi}")
    if c.softmax is not None:
        s = c.softmax
        score = t.value(s.score, indent)
        t.lines.append(f"{indent}acc{s.weight} = softmax of {score}: acc{s.weight} / acc{s.total}, acc{s.top} subtracted")
    for o in c.outer:
        value, b = t.value(o.value, indent), t.value(o.b, indent)
        over = c.rows if o.sums_rows else c.columns
        t.lines.append(f"{indent}acc{o.id} = sum {value} * {b} over {_axes(over)} for {_axes(o.n)}")
        for store in o.stores:
            _store(t, store, indent)


def _stage(t: _Text, stage: Stage | Contraction | Chain) -> None:
    indent = "      "
    if isinstance(stage, Chain):
        _chain(t, stage, indent)
    elif isinstance(stage, Contraction):
        t.lines.append(
            f"    product acc{stage.id} {stage.accum.name}: batch {_axes(stage.batch)}; m {_axes(stage.m)}; "
            f"n {_axes(stage.n)}; k {_axes(stage.k)}"
        )
        a, b = t.value(stage.a, indent), t.value(stage.b, indent)
        t.lines.append(f"{indent}acc{stage.id} = sum {a} * {b} [{_order(stage.order)}{_rounding(stage)}]")
    else:
        t.lines.append(f"    stage {_axes(stage.axes)}")
        for r in stage.reductions:
            _reduction(t, r, indent)
    for s in stage.stores:
        _store(t, s, indent)


def print_kernel(kernel: Kernel) -> str:
    """Return the kernel as text, which is also the cache key of its code: equal for equal kernels in any graph and any process.

    Never use ``hash(kernel)`` instead: Values share subexpressions, and a hash would walk them as trees.
    """
    t = _Text()
    inputs, outputs = (", ".join(map(_buffer, buffers)) for buffers in (kernel.inputs, kernel.outputs))
    scalars = ", ".join(f"s{k} {d.name}" for k, d in enumerate(kernel.scalars))
    t.lines.append(f"kernel {kernel.name}({inputs}{'; ' + scalars if scalars else ''}) -> {outputs}")
    t.lines += [f"  scratch {_buffer(b)}" for b in kernel.scratch]
    for phase in kernel.phases:
        t.lines.append(f"  phase {_axes(phase.axes)}")
        for stage in phase.stages:
            t.by_id, t.name_of = {}, {}
            _stage(t, stage)
    return "\n".join(t.lines)


kernel_key = print_kernel
