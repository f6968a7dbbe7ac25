"""ValueEmitter, which emits LLVM text of an expression at one iteration, or at ``lanes`` neighbouring ones."""

from __future__ import annotations

from dataclasses import replace
from math import gcd
from typing import Any

from weft.devices.cpu.emit.affine import emit_affine, emit_index_value
from weft.devices.cpu.emit.check import emit_check, record_slot
from weft.devices.cpu.emit.emitter import Emitter, Env, Level, key_of
from weft.devices.cpu.emit.isa import ISA
from weft.devices.cpu.emit.load import emit_load
from weft.devices.cpu.emit.machine_operations import emit_machine_operation
from weft.devices.cpu.emit.ops import Ops
from weft.devices.cpu.emit.philox import consecutive_words, two_vectors_of_words, upper_half
from weft.devices.cpu.emit.storage_formats import load_scalar
from weft.devices.cpu.emit.store import emit_store_access, emit_stores
from weft.devices.cpu.emit.text import Function, Module
from weft.devices.cpu.emit.types import llvm_type, memory_type, wide
from weft.kernel.expressions import dependencies
from weft.kernel.ir import Kernel, Store, Value

__all__ = [
    "Env", "Level", "emit_all_stores", "emit_store", "emit_value", "key_of", "kernel_env", "llvm_type", "memory_type", "wide",
]


def kernel_env(
    f: Function, kernel: Kernel, values: list[Value], stores: tuple[Store, ...], axes: dict[int, str], **fields: Any,
) -> Env:
    """Return an Env with more ``fields`` and the pointers and scalars that ``values`` and ``stores`` use, loaded from %args."""
    used = {v.attr.buffer.id for v in values if v.op == "load"} | {s.access.buffer.id for s in stores}
    pointers = {b: f.argument(b) for b in sorted(used)}
    first = len(kernel.inputs) + len(kernel.outputs)
    scalars = {v.attr: load_scalar(f, v.dtype, f.offset("%args", 8 * (first + v.attr))) for v in values if v.op == "scalar"}
    record = f.argument(record_slot(kernel)) if any(v.op == "check" for v in values) else ""
    return Env(axes=axes, pointers=pointers, scalars=scalars, record=record, **fields)


def emit_value(f: Function, m: Module, isa: ISA, value: Value, env: Env) -> str:
    """Return the SSA name (or constant) of a value: ``<lanes x T>`` if env.vector is set, else a scalar.

    T is :func:`llvm_type` of value.dtype. A value that does not depend on the vector axis is computed once, as a scalar; a
    value that does not depend on an open loop is computed before the loop (env.levels).
    """
    e = ValueEmitter(f, m, isa, env)
    name, vector = e.value(value)
    return name if vector or env.vector is None else e.splat(name, llvm_type(value.dtype))


def emit_store(f: Function, m: Module, isa: ISA, store: Store, env: Env) -> None:
    """Store store.value; masked lanes do not touch memory.

    Mode "add" reads, adds and writes, lane by lane in order if several lanes may write the same element.
    """
    emit_store_access(ValueEmitter(f, m, isa, env), store)


def emit_all_stores(f: Function, m: Module, isa: ISA, stores: tuple[Store, ...], env: Env) -> None:
    """Emit the stores of one iteration, two that interleave together."""
    emit_stores(ValueEmitter(f, m, isa, env), stores)


class ValueEmitter(Emitter):
    """Emitter of a Value and its operands."""

    __slots__ = ()

    def emit_uncached(self, v: Value, vector: bool) -> str:
        """Emit one value whose operands are emitted already."""
        ops = Ops(self.f, self.m, self.isa, self.env.lanes if vector else None)
        if v.op == "const":
            return ops.const(v.dtype, v.attr)
        if v.op == "scalar":
            return self.env.scalars[v.attr]
        if v.op == "acc":
            return self.env.accs[v.attr]
        if v.op == "index":
            return emit_index_value(self, v.attr, v.dtype, vector)
        if v.op == "load":
            return emit_load(self, v.attr, v.dtype, vector)
        if v.op == "check":
            return emit_check(self, v, vector)
        if v.op in ("philox", "philox_half") and vector:
            words = self.emit_random_words(v)
            if words is not None:
                return words
        return emit_machine_operation(ops, v, [self.in_lanes(a, vector) for a in v.args])

    def emit_random_words(self, v: Value) -> str | None:
        """Emit the random words of neighbouring elements, computing each block of four words once.

        Return None if the elements do not begin at a multiple of four (for halves of words, of the lanes) or are not consecutive.
        """
        env = self.env
        element = v.args[2]
        while element.op == "cast":
            element = element.args[0]
        unit = 4 if v.op == "philox" else max(env.lanes, 4)
        if element.op != "index" or element.attr.gather or env.lanes % 4 or 16 % unit or env.minor is not None:
            return None
        const, alignment = element.attr.const, env.alignment or env.lanes  # of the first element, without the constant
        for a, c in element.attr.terms:
            const += c * env.offsets.get(a, 0)
            text = env.axes[a]
            if a == env.vector and c != 1:
                return None
            if not text.startswith("%"):
                const += c * int(text)
            elif a != env.vector:
                alignment = gcd(alignment, c)
        if const % unit or alignment % unit:
            return None
        (key, key_is_vector), (base, base_is_vector) = (self.value(x) for x in v.args[:2])
        if key_is_vector or base_is_vector:
            return None
        at = element.attr
        # vectors of words come in twos, for neighbouring vectors of elements; one of half words serves two of these
        per_words = 2 if v.op == "philox_half" and alignment % 32 == 0 else 1
        step = env.lanes * per_words
        in_twos = bool(env.levels) and env.lanes >= 8 and (v.op == "philox" or step == 32) and alignment % (2 * step) == 0
        shared = 2 * step - env.lanes if in_twos else 16 * (per_words - 1)  # the bits of an element's number that are left out
        at = replace(at, const=at.const - (const & shared))
        first = emit_affine(self, at, vector=False)
        ops, lanes = (Ops(self.f, self.m, self.isa, n) for n in (None, env.lanes))
        block = ops.op("lshr", "i64", first, "2")
        if v.op == "philox_half":
            group = ops.op("shl", "i64", ops.op("lshr", "i64", first, "5"), "2")
            block = ops.op("or", "i64", group, ops.op("and", "i64", block, "3"))
        if in_twos:
            level, _ = self.place(dependencies(v, env.deps))
            place = (tuple([(env.axes[a], c) for a, c in at.terms]), const - (const & shared))
            two = self.once(
                level, ("words", key, base, place),
                lambda: two_vectors_of_words(lanes, key, ops.op("add", "i64", base, block)),
            )
            words = two[bool(const & step)]
        else:
            words = consecutive_words(lanes, key, ops.op("add", "i64", base, block))
        if v.op == "philox":
            return words
        if per_words == 2:
            return upper_half(lanes, words, lanes.c("i32", const & 16))
        sixteen = ops.convert("trunc", "i64", ops.op("and", "i64", first, "16"), "i32")
        return upper_half(lanes, words, lanes.splat(sixteen, "i32"))
