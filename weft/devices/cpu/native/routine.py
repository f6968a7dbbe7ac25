"""A notation for the runtime's native functions: typed values with operators, records with named fields, ``with`` blocks.

A routine is a Python function that emits one native function::

    @routine("i64 weft_idle(ptr home)")
    def idle(f: Body, home: Value) -> None:
        record = f.record(home, HOME)
        f.ret_if(record["count"] == 0, 0)
        ...

It runs once, when the LLVM text is generated, on values that stand for those of the native function: ``a + b`` emits an
addition, ``record["count"]`` a load, and a Python helper that takes ``f`` emits its instructions inline. Integers compare as
signed. Pointers are untyped; records and arrays add the layout.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, TypeAlias

from weft.devices.cpu.emit.text import Function
from weft.devices.cpu.native import imported_symbols
from weft.devices.cpu.native.layouts import Layout


def _operator(operation: str) -> Callable[[Value, Operand], Value]:
    return lambda self, other: self.binary(operation, other)


def _comparison(how: str) -> Callable[[Value, Operand], Value]:
    def compare(self: Value, other: Operand) -> Value:
        return self.binary(f"fcmp o{how}" if self.type in ("float", "double") else f"icmp s{how}", other, "i1")

    return compare


class Value:
    """A value of the native function: its name in the text and its LLVM type."""

    __slots__ = ("f", "name", "type")
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, f: Body, type_: str, name: str) -> None:
        self.f, self.type, self.name = f, type_, name

    def __str__(self) -> str:
        return self.name

    def binary(self, operation: str, other: Operand, type_: str = "") -> Value:
        return self.f.emit(type_ or self.type, f"{operation} {self.type} {self.name}, {text_of(other, self.type)}")

    __add__ = _operator("add")
    __sub__ = _operator("sub")
    __mul__ = _operator("mul")
    __floordiv__ = _operator("udiv")
    __lshift__ = _operator("shl")
    __rshift__ = _operator("lshr")
    __and__ = _operator("and")
    __or__ = _operator("or")

    def __invert__(self) -> Value:
        return self.binary("xor", True if self.type == "i1" else -1)

    __lt__ = _comparison("lt")
    __le__ = _comparison("le")
    __gt__ = _comparison("gt")
    __ge__ = _comparison("ge")

    def __eq__(self, other: Operand) -> Value:  # type: ignore[override]
        return self.binary("fcmp oeq" if self.type in ("float", "double") else "icmp eq", other, "i1")

    def __ne__(self, other: Operand) -> Value:  # type: ignore[override]
        return self.binary("icmp ne", other, "i1")

    def __bool__(self) -> bool:
        raise TypeError("a value of the native function is not known while its text is made: use f.when")

    @property
    def null(self) -> Value:
        """Whether a pointer is null."""
        return self == None  # noqa: E711  (emits a comparison)

    @property
    def is_nan(self) -> Value:
        return self.binary("fcmp uno", self, "i1")

    def pick(self, yes: Operand, no: Operand) -> Value:
        """Emit a select: ``yes`` if this bit is set, else ``no``."""
        type_ = next((x.type for x in (yes, no) if isinstance(x, Value)), "i64")
        return self.f.emit(type_, f"select i1 {self.name}, {type_} {text_of(yes, type_)}, {type_} {text_of(no, type_)}")

    def sign_extend(self) -> Value:
        """Sign-extend an integer to 64 bits."""
        return self if self.type == "i64" else self.f.emit("i64", f"sext {self.type} {self.name} to i64")

    def minimum(self, other: Value) -> Value:
        return (self < other).pick(self, other)

    def to(self, type_: str) -> Value:
        """Convert to another type: zero-extend, truncate, cast between pointer and integer, or convert to or between floats."""
        if type_ == self.type:
            return self
        if "ptr" in (type_, self.type):
            how = "ptrtoint" if self.type == "ptr" else "inttoptr"
        elif type_ in ("float", "double") and self.type[0] == "i":
            how = "sitofp"
        elif type_ in ("float", "double"):
            how = "fptrunc" if type_ == "float" else "fpext"
        else:
            how = "zext" if int(self.type[1:]) < int(type_[1:]) else "trunc"
        return self.f.emit(type_, f"{how} {self.type} {self.name} to {type_}")


Operand: TypeAlias = Value | int | float | None


def text_of(operand: Operand, type_: str) -> str:
    """Return the text of an operand of an instruction on values of ``type_``."""
    if isinstance(operand, Value):
        if operand.type != type_:
            raise TypeError(f"{operand.name} is of type {operand.type}, not {type_}")
        return operand.name
    if operand is None:
        return "null"
    return str(operand).lower()  # True and False become true and false


class Variable:
    """A mutable local, which LLVM puts in a register. ``v.now`` reads it, ``v.now = x`` writes it."""

    def __init__(self, f: Body, type_: str) -> None:
        self.f, self.type, self.pointer = f, type_, f.local(type_)

    @property
    def now(self) -> Value:
        return Value(self.f, self.type, self.f.load(self.type, self.pointer))

    @now.setter
    def now(self, value: Operand) -> None:
        self.f.store(self.type, text_of(value, self.type), self.pointer)


class Array:
    """Elements of one type in memory: ``a[k]`` loads one, ``a[k] = x`` stores one, ``a.at(k)`` is its address."""

    __iter__ = None

    def __init__(self, f: Body, pointer: Value, type_: str) -> None:
        self.f, self.pointer, self.type = f, pointer, type_

    def at(self, index: Value | int) -> Value:
        name = index.name if isinstance(index, Value) else index
        return Value(self.f, "ptr", self.f.element(self.pointer.name, self.type, name))

    def part(self, index: Value | int) -> Array:
        """Return the array that starts at an element."""
        return Array(self.f, self.at(index), self.type)

    def __getitem__(self, index: Value | int) -> Value:
        return Value(self.f, self.type, self.f.load(self.type, self.at(index).name))

    def __setitem__(self, index: Value | int, value: Operand) -> None:
        self.f.store(self.type, text_of(value, self.type), self.at(index).name)


class Record:
    """A record in memory: ``r["count"]`` loads a field, ``r["count"] = x`` stores it, ``r.at("count")`` is its address."""

    __iter__ = None

    def __init__(self, f: Body, pointer: Value, layout: Layout) -> None:
        self.f, self.pointer, self.layout = f, pointer, layout

    def at(self, name: str) -> Value:
        return Value(self.f, "ptr", self.f.offset(self.pointer.name, self.layout[name][0]))

    def __getitem__(self, name: str) -> Value:
        type_ = self.layout[name][1]
        return Value(self.f, type_, self.f.load(type_, self.at(name).name))

    def __setitem__(self, name: str, value: Operand) -> None:
        type_ = self.layout[name][1]
        self.f.store(type_, text_of(value, type_), self.at(name).name)

    def atomic(self, name: str, order: str) -> Value:
        """Emit an atomic load."""
        type_ = self.layout[name][1]
        return self.f.emit(type_, f"load atomic {type_}, ptr {self.at(name)} {order}, align {_SIZE[type_]}")

    def set_atomic(self, name: str, value: Operand, order: str) -> None:
        type_ = self.layout[name][1]
        self.f.do(f"store atomic {type_} {text_of(value, type_)}, ptr {self.at(name)} {order}, align {_SIZE[type_]}")

    def swap(self, name: str, old: Operand, new: Operand) -> Value:
        """Emit a compare-and-swap of ``old`` by ``new``. The result is whether it succeeded."""
        type_ = self.layout[name][1]
        change = f"{type_} {text_of(old, type_)}, {type_} {text_of(new, type_)}"
        pair = self.f.let(f"cmpxchg ptr {self.at(name)}, {change} acq_rel acquire, align {_SIZE[type_]}")
        return self.f.emit("i1", f"extractvalue {{ {type_}, i1 }} {pair}, 1")

    def atomic_add(self, name: str, value: Operand) -> Value:
        """Emit an atomic addition. The result is the old value."""
        type_ = self.layout[name][1]
        how = f"atomicrmw add ptr {self.at(name).name}, {type_} {text_of(value, type_)} seq_cst, align {_SIZE[type_]}"
        return self.f.emit(type_, how)


class Signature(NamedTuple):
    result: str
    name: str
    types: tuple[str, ...]
    variadic: bool = False

    @classmethod
    def parse(cls, text: str) -> Signature:
        """Parse ``"i64 name(ptr, i64)"``. Parameter names are ignored; ``...`` makes the function variadic."""
        result, name, inside = re.fullmatch(r"(\w+) ([\w.]+)\((.*)\)", text).groups()  # type: ignore[union-attr]
        types = [word.split()[0] for word in inside.split(", ") if word]
        return cls(result, name, tuple(t for t in types if t != "..."), "..." in types)


class Routine(NamedTuple):
    """A native function of the runtime. ``exported``: visible outside its module."""

    signature: Signature
    write: Callable[..., None]
    exported: bool
    attributes: str


def routine(signature: str, exported: bool = False, attributes: str = "nounwind") -> Callable[[Callable[..., None]], Routine]:
    """Decorate a function (body, *parameters) that emits a native function; it becomes a Routine."""
    return lambda write: Routine(Signature.parse(signature), write, exported, attributes)


class Body(Function):
    """The body of a routine under construction."""

    def __init__(self, routine_: Routine) -> None:
        s = routine_.signature
        self.result = s.result
        self.parameters = [Value(self, type_, f"%given{k}") for k, type_ in enumerate(s.types)]
        inside = ", ".join(f"{p.type} {p.name}" for p in self.parameters)
        linkage = "" if routine_.exported else "internal "
        super().__init__(f"define {linkage}{s.result} @{s.name}({inside})", routine_.attributes)
        self.declarations: dict[str, str] = {}  # external symbol -> declaration
        self.internal: list[Routine] = []  # that it calls

    def emit(self, type_: str, text: str) -> Value:
        return Value(self, type_, self.let(text))

    def constant(self, type_: str, value: Operand) -> Value:
        return Value(self, type_, text_of(value, type_))

    def variable(self, type_: str, start: Operand = None) -> Variable:
        """Return a variable with the initial value ``start``, by default 0 or null."""
        out = Variable(self, type_)
        out.now = 0 if start is None and type_ != "ptr" else start
        return out

    def array(self, pointer: Value, type_: str = "i64") -> Array:
        return Array(self, pointer, type_)

    def record(self, pointer: Value, layout: Layout) -> Record:
        return Record(self, pointer, layout)

    def allocate_stack(self, type_: str, count: Value) -> Array:
        """Allocate an array on the stack. Not in a loop: it is freed only when the function returns."""
        return Array(self, self.emit("ptr", f"alloca {type_}, i64 {count.name}, align 16"), type_)

    def allocate_fixed(self, type_: str, align: int = 16) -> Value:
        """Allocate stack memory of a constant size."""
        return Value(self, "ptr", self.local(type_, align))

    def symbol(self, name: str) -> Value:
        """Return the address of an external symbol."""
        self.declarations.setdefault(name, f"@{name} = external global i8")
        return Value(self, "ptr", f"@{name}")

    def address(self, of: Routine) -> Value:
        self.internal += [] if of.exported else [of]
        return Value(self, "ptr", f"@{of.signature.name}")

    def call(self, what: Routine | str, *args: Operand) -> Value:
        """Emit a call of a routine, or of a function of ``imported_symbols`` by name."""
        if isinstance(what, str):
            s = Signature.parse(imported_symbols.FUNCTIONS[what])
        else:
            s = what.signature
        inside = ", ".join([*s.types, "..."] if s.variadic else s.types)
        if isinstance(what, Routine) and not what.exported:
            self.internal.append(what)
        else:
            self.declarations[s.name] = f"declare {s.result} @{s.name}({inside})"
        return self._emit_call(s.result + (f" ({inside})" if s.variadic else ""), f"@{s.name}", s.types, args, s.variadic)

    def call_address(self, address: Value, *args: Value) -> None:
        """Emit a call of a void function at an address."""
        self._emit_call("void", address.name, [a.type for a in args], args)

    def _emit_call(
        self, result: str, name: str, types: Sequence[str], args: Sequence[Operand], variadic: bool = False,
    ) -> Value:
        if len(args) != len(types) and not variadic:
            raise TypeError(f"{name} takes {len(types)} arguments, not {len(args)}")
        rest = [a.type for a in args[len(types):] if isinstance(a, Value)]
        inside = ", ".join(f"{t} {text_of(a, t)}" for t, a in zip([*types, *rest], args, strict=True))
        text = f"call {result} {name}({inside})"
        if result == "void":
            self.do(text)
            return Value(self, "void", "")
        return self.emit(result.split()[0], text)

    def copy(self, target: Value, source: Value, nbytes: Value) -> None:
        self.call("llvm.memcpy.p0.p0.i64", target, source, nbytes, False)

    @contextmanager
    def when(self, condition: Value | str) -> Iterator[None]:
        with super().when(str(condition)):
            yield

    @contextmanager
    def unless(self, condition: Value) -> Iterator[None]:
        with super().when(str(~condition)):
            yield

    @contextmanager
    def count_to(self, count: Value) -> Iterator[Value]:
        """Emit ``for k in range(count)``."""
        with self.loop(0, count.name) as k:
            yield Value(self, "i64", k)

    def ret(self, value: Operand = None) -> None:
        self.do("ret void" if self.result == "void" else f"ret {self.result} {text_of(value, self.result)}")

    def ret_if(self, condition: Value, value: Operand = None, release: Value | None = None) -> None:
        """Return a value that is known before the branch if the condition holds; first drop a reference to ``release``."""
        with self.when(condition):
            if release is not None:
                self.call("Py_DecRef", release)
            self.ret(value)

    def leave_if(self, condition: Value) -> None:
        with self.when(condition):
            self.leave()

    def continue_unless(self, condition: Value) -> None:
        with self.unless(condition):
            self.again()

    def ret_unless(self, condition: Value, value: Operand = None, release: Value | None = None) -> None:
        self.ret_if(~condition, value, release)


_SIZE = {"i32": 4, "i64": 8, "ptr": 8}


def text_of_all(routines: Iterable[Routine]) -> str:
    """Return the LLVM text of a module of these routines and of the internal ones that they call, with declarations of the
    external symbols they use."""
    out: list[str] = []
    named: dict[str, str] = {}
    own = {r.signature.name: r for r in routines}
    waiting = list(own.values())
    for routine_ in waiting:  # grows
        f = Body(routine_)
        routine_.write(f, *f.parameters)
        if not f.ended() and f.result != "void":
            raise ValueError(f"{routine_.signature.name} has a path that does not return a value")
        for called in f.internal:
            if own.setdefault(called.signature.name, called) is called and called not in waiting:
                waiting.append(called)
        named.update(f.declarations)
        out.append(f.text())
    return "\n".join([*(line for name, line in named.items() if name not in own), *out])
