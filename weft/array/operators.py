"""The operators of Array and the functions of ``wf`` behind them, made from the records of ``operations.py``.

Two arrays of one shape and dtype, and an array and a number, skip dtype promotion: creating a pending node must take less than 1
us. Operands that weft cannot hold are left to their own operators.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from weft.array.convert import NUMBERS, as_node, is_stripped, number_node, numpy_node, promote_operands
from weft.array.operations import OPERATIONS, SHORT_POWERS, Operation, matmul, to_float
from weft.dtypes.formats import BOOL, FLOAT32, FLOAT64, FLOATS, FORMATS, INTEGERS, Format, weak
from weft.eager import implementations
from weft.eager.apply import bind, compute_pair
from weft.eager.native import NATIVE_ELEMENTS, NativeElementwise, NativeShaped, call_after_views, not_available
from weft.errors import PACKAGE, DTypeError
from weft.graph.node import Node, Primitive
from weft.graph.primitives.table import CONSTANT, TABLE, constant, input_leaf, scalar_leaf
from weft.graph.source_lines import user_frame
from weft.runtime.cell import Cell
from weft.runtime.context import CONTEXT
from weft.runtime.traced_int import TracedInt

_COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
_REFLECTED_COMPARISONS = {"eq": "eq", "ne": "ne", "lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}
_OWN_KINDS = (*NUMBERS, Cell, np.ndarray, np.generic, list, tuple, range, type)  # operands whose conversion raises the best error
_NUMBERS = frozenset((float, int, bool, TracedInt))
_PLAIN_NUMBERS = frozenset((float, int))
_LIMITS = {dtype: (dtype.least, dtype.greatest) for dtype in INTEGERS}
_TRACKED_PATH = PACKAGE  # operators called from files under this path use user_frame, to find the user's line
_frame = sys._getframe
_new = object.__new__
_NO_PARAMS: dict[str, Any] = {}
_NONE: tuple[Node, ...] = ()
_SMALL_CONSTANTS: dict[tuple[Any, Format], Node] = {}  # cached constants of small integers
_CALLS: dict[str, Callable[..., Any]] = {}
_SHORT: dict[str, NativeElementwise] = {}  # native functions that treat numbers as the operators do
_NO_NATIVE = NativeElementwise(0, lambda op, dtype: None)  # for the others: it never becomes native
_CLASSES: list[Any] = []  # the arguments of install


def _number(value: Any, dtype: Format) -> Node | None:
    """Return the node of a Python number beside an array of ``dtype``, or None if the result would have another dtype."""
    if type(value) is float:
        if CONTEXT.trace is None and abs(value) <= dtype.reach:
            return scalar_leaf(value, dtype)
        return None if dtype.finite else _constant_number(value, dtype)  # it may become NaN, which comparisons must not see
    if dtype.finite and abs(value) > dtype.reach:
        return None
    if type(value) is int and dtype in FLOATS and not -1 <= value <= 2:
        return number_node(value, dtype)
    return _constant_number(value, dtype)


def _constant_number(value: Any, dtype: Format) -> Node | None:
    """Return the node of a number that is a constant of the program, as exponents are: the code of a power depends on them."""
    if type(value) is int:
        if (node := _SMALL_CONSTANTS.get((value, dtype))) is None:
            least, greatest = _LIMITS.get(dtype, (-128, 127))
            if dtype is BOOL or not max(least, -128) <= value <= min(greatest, 127):
                return None
            node = _SMALL_CONSTANTS[value, dtype] = constant(value, dtype)
        return node
    return number_node(value, dtype) if type(value) is float and dtype in FLOATS else None


def _exponent(value: Any, dtype: Format) -> Node | None:
    """Return the node of an exponent beside an array of ``dtype``: a constant, or a run-time number. None as in
    :func:`_number`."""
    is_short = type(value) is float and value in SHORT_POWERS and dtype in FLOATS
    return constant(value, dtype) if is_short else _constant_number(value, dtype)


def install(base: Any, array: Any, scalar: Any, wrap: Callable[..., Any]) -> None:
    """Add the operators to the base of both classes; replace those of scalars that differ, as in-place ones make new objects."""
    _CLASSES[:] = base, array, scalar, wrap
    for operation in OPERATIONS.values():
        _install(base, array, scalar, wrap, operation)
    for name, function in _products(array, wrap).items():
        _add_method(base, f"__{name}__", function)
    scalar.__imatmul__ = base.__matmul__
    _add_method(base, "__divmod__", _divmod)
    _add_method(
        base, "__rdivmod__", lambda self, other: NotImplemented if leaves_to_operand(other) else (other // self, other % self)
    )


def _install(base: Any, array: Any, scalar: Any, wrap: Callable[..., Any], operation: Operation) -> None:
    """Create the function of one operation, and its operators if it has any."""
    name = operation.operator
    if operation.arity == 1:
        _CALLS[operation.name] = function = _unary(array, wrap, operation)
        if name:
            _add_method(base, f"__{name}__", lambda self, _function=function: _function(self))
        return
    if operation.name not in TABLE:  # composed of several primitives
        _CALLS[operation.name] = lambda x1, x2: wrap(operation.node(x1, x2))
        return
    forward, reflected, in_place, function = _binary(base, array, scalar, wrap, operation)
    _CALLS[operation.name] = function
    if not name:
        return
    if name == "pow":
        forward = _power(wrap, forward)
    _add_method(base, f"__{name}__", forward)
    if name not in _COMPARISONS:
        _add_method(base, f"__r{name}__", reflected)
        _add_method(base, f"__i{name}__", in_place)
        setattr(scalar, f"__i{name}__", forward)


def install_weak(number: Any) -> None:
    """Add operators to numbers without a dtype that keep them so when they are combined with other numbers."""
    for operation in OPERATIONS.values():
        name = operation.operator
        if operation.arity == 2 and name:
            forward, reflected = _weak(operation, getattr(number, f"__{name}__"), getattr(number, f"__r{name}__", None))
            _add_method(number, f"__{name}__", forward)
            if name not in _COMPARISONS:
                _add_method(number, f"__r{name}__", reflected)
                _add_method(number, f"__i{name}__", forward)


def _weak(operation: Operation, otherwise: Callable, otherwise_reflected: Callable | None) -> tuple[Callable, Callable]:
    def forward(self: Any, other: Any) -> Any:
        is_weak = type(other) in _NUMBERS or getattr(other, "weak", False)
        return self._weakly(operation, self, other) if is_weak else otherwise(self, other)

    def reflected(self: Any, other: Any) -> Any:
        assert otherwise_reflected is not None
        return self._weakly(operation, other, self) if type(other) in _NUMBERS else otherwise_reflected(self, other)

    return forward, reflected


def call(name: str, arity: int) -> Callable[..., Any]:
    """Return the function of an operation, ``f(x)`` or ``f(x, y)``, equal to its operator, for operands of any kind.

    A primitive without a record in ``operations.py`` is taken as one of floats: integers become float32.
    """
    if name not in _CALLS:
        base, array, scalar, wrap = _CLASSES
        OPERATIONS[TABLE[name].name] = operation = Operation(name, arity, to_float, ufunc="")
        _install(base, array, scalar, wrap, operation)
    return _CALLS[name]


def native_operation(name: str) -> NativeElementwise:
    """Return the native function to try before the function that :func:`call` returns."""
    return _SHORT.get(name, _NO_NATIVE)


def _add_method(cls: type, name: str, function: Any) -> None:
    function.__name__ = name
    function.__qualname__ = f"Array.{name}"
    setattr(cls, name, function)


def _products(array: Any, wrap: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    shaped = NativeShaped(matmul)

    def forward(self: Any, other: Any) -> Any:
        native = shaped.call
        if (result := native(self, other)) is not None:
            return result
        if (result := call_after_views(native, self, other)) is not None:
            return result
        if type(other) is array:
            x, y = self.node, other.node
            if x.dtype is y.dtype:
                out = matmul(x, y)
                shaped.count_call(out, x, y)
                return wrap(out)
        return NotImplemented if leaves_to_operand(other) else general(self, other)

    general = deferring("matmul", lambda self, other: wrap(matmul(*promote_operands(self, other))))

    def reflected(self: Any, other: Any) -> Any:
        return NotImplemented if leaves_to_operand(other) else wrap(matmul(*promote_operands(other, self)))

    def in_place(self: Any, other: Any) -> Any:
        if leaves_to_operand_in_place(other, "matmul", "matmul"):
            return NotImplemented
        return self._in_place(matmul(*promote_operands(self, other)), "matmul in place")

    return {"matmul": forward, "rmatmul": reflected, "imatmul": in_place}


def _unary(array: Any, wrap: Callable[..., Any], operation: Operation) -> Callable[..., Any]:
    bindings, body = operation.bindings, operation.body
    _SHORT[operation.name] = short = NativeElementwise(1, lambda op, dtype: _unary_result(operation, op, dtype))

    def function(x: Any) -> Any:
        native = short.call
        if (result := native(x)) is not None:
            return result
        if (result := call_after_views(native, x)) is not None:
            return result
        if type(x) is array and body is None:
            node = x.node
            primitive, dtype = bindings[node.dtype]
            if primitive is not None and dtype is node.dtype:
                return wrap(bind(primitive, node))
        elif operation.operator and getattr(x, "weak", False):
            return x._weakly(operation, x)
        return wrap(operation.node(x))

    return function


def _power(wrap: Callable[..., Any], power: Callable[..., Any]) -> Callable[..., Any]:
    """Return ``__pow__`` with a fast path for ``x ** 2``, which is ``x * x``."""
    square = TABLE["square"]
    short = NativeElementwise(1, lambda op, dtype: dtype if op is square and dtype is not BOOL else None)

    def raised(self: Any, other: Any) -> Any:
        if type(other) in (int, float) and other == 2:
            native = short.call
            is_native = type(other) is int or (self._base is None and self._node.dtype in FLOATS)
            if (result := native(self) if is_native else None) is not None:
                return result
            node = self.node
            if node.dtype in FLOATS or (type(other) is int and node.dtype in INTEGERS):
                return wrap(bind(square, node))
        return power(self, other)

    return raised


def _binary(base: Any, array: Any, scalar: Any, wrap: Callable[..., Any], operation: Operation) -> tuple[Callable, ...]:
    """Return ``__op__``, ``__rop__`` and ``__iop__`` of arrays (the first two also of scalars), and the function."""
    name, op = operation.name, TABLE[operation.name]
    number = _exponent if name == "pow" else _number
    plain: dict[Format, Format] = {}  # dtype of both operands -> of the result, if no cast is needed
    filled: list[bool] = []
    short = NativeElementwise(2, lambda op_, dtype: _castless_dtypes(operation).get(dtype) if op_ is op else None)
    shared = operation.body is None  # whether function and operator treat numbers alike
    if shared:
        _SHORT[name] = short

    def apply_rule(x1: Any, x2: Any) -> Any:
        """Apply the operation's rule; the first call fills ``plain``, the dtypes that need no rule."""
        if not filled:
            filled.append(True)
            plain.update(_castless_dtypes(operation))
        if shared and CONTEXT.eager_limit and (type(x1) is scalar or type(x2) is scalar):
            if (result := cast_natively(x1, x2)) is not None:
                return result
        return wrap(operation.node(x1, x2))

    def cast_natively(x1: Any, x2: Any) -> Any:
        """Cast two materialised numbers by the rule and combine them natively; None if that is not possible exactly."""
        a = NATIVE_ELEMENTS.number(x1) if type(x1) is scalar else x1 if type(x1) in _PLAIN_NUMBERS else None
        b = NATIVE_ELEMENTS.number(x2) if type(x2) is scalar else x2 if type(x2) in _PLAIN_NUMBERS else None
        if a is None or b is None:
            return None
        if type(x1) is not scalar:
            common_dtype = weak(type(x1), x2.node.dtype)
        else:
            dtype = x1.node.dtype
            common_dtype = operation.promote_pair(dtype, x2.node.dtype) if type(x2) is scalar else weak(type(x2), dtype)
        primitive, dtype = operation.bindings[common_dtype]
        if primitive is not op or not (_is_exact(a, dtype) and _is_exact(b, dtype)):
            return None
        kind = int if dtype in _LIMITS else float
        return short.call(wrap(input_leaf((), dtype, implementations.number(kind(a), dtype))), kind(b))

    def combine(x: Node, y: Node, like: Node, dtype: Format, trace: Any) -> Any:
        """Create the node without the rule, or its value if the work is small; the result has the shape of ``like``."""
        node = _new(Node)  # set by hand: __init__ would cost as much as the rest
        node.op = op
        node.params = _NO_PARAMS
        node.shape = like.shape
        node.dtype = dtype
        node.holder = node.value = None
        if trace is None and (x.value is not None or x.op is CONSTANT) and (y.value is not None or y.op is CONSTANT):
            node.value = compute_pair(op, x, y, like, dtype)
        if node.value is None:
            frame = _frame(2)
            code = frame.f_code
            node.inputs = (x, y)
            node.source_line = user_frame() if code.co_filename.startswith(_TRACKED_PATH) else (code, frame.f_lasti)
        else:
            node.inputs = _NONE
            node.source_line = None
            if like.params is not _NO_PARAMS and "reduced" in like.params:
                node.params = like.params
        return wrap(node, trace)

    def forward(self: Any, other: Any) -> Any:
        native = short.call
        if (result := native(self, other)) is not None:
            return result
        kind = type(other)
        if kind is array or self._base is not None:
            if (result := call_after_views(native, self, other)) is not None:
                return result
        trace = CONTEXT.trace  # outside of traces a cell's node is read directly
        x = self._node if trace is None and self._base is None else self.node
        if (dtype := plain.get(x.dtype)) is not None:
            if kind is array or kind is scalar:
                y = other._node if trace is None and other._base is None else other.node
                if x.dtype is y.dtype:
                    if x.shape == y.shape or not y.shape:
                        return combine(x, y, x, dtype, trace)
                    return combine(x, y, y, dtype, trace) if not x.shape else wrap(bind(op, x, y))
            elif kind in _NUMBERS:
                if (y := number(other, x.dtype)) is not None:
                    return combine(x, y, x, dtype, trace)
        return otherwise(self, other)

    def reflected(self: Any, other: Any) -> Any:
        native = short.call
        if (result := native(other, self)) is not None:
            return result
        if (result := call_after_views(native, other, self)) is not None:
            return result
        if type(other) in _NUMBERS:
            x = self.node
            if (dtype := plain.get(x.dtype)) is not None:
                if (y := number(other, x.dtype)) is not None:
                    return combine(y, x, x, dtype, CONTEXT.trace)
        return NotImplemented if leaves_to(other, self) else apply_rule(other, self)

    def leaves_to(other: Any, self: Any) -> bool:
        """Return whether Python tries the operator of ``other``. A list times an integer repeats the list, as with NumPy's
        scalars."""
        if name == "multiply" and type(self) is scalar and isinstance(other, list | tuple):
            return self.node.dtype in INTEGERS
        return leaves_to_operand(other)

    def by_rule(self: Any, other: Any) -> Any:
        return NotImplemented if leaves_to(other, self) else apply_rule(self, other)

    if name in ("equal", "not_equal"):
        otherwise = equality(operation, apply_rule, scalar)
    else:
        otherwise = deferring(operation.operator, by_rule) if operation.operator else by_rule

    def in_place(self: Any, other: Any) -> Any:
        native = short.call if shared else not_available
        if (result := native(self, other, self)) is not None:
            return result
        if self._base is not None:  # a view computes its new content, then writes it through
            if (result := call_after_views(native, self, other)) is not None:
                return self._in_place(result._node, f"{name} in place")
        if isinstance(other, base):
            x, y = self.node, other.node
            if x.dtype is y.dtype and x.dtype in plain and not other.weak:
                return self._in_place(bind(op, x, y), f"{name} in place")
        left_to_other = leaves_to_operand_in_place(other, name, operation.operator)
        return NotImplemented if left_to_other else self._in_place(operation.node(self, other), f"{name} in place")

    def function(x1: Any, x2: Any) -> Any:
        native = short.call if shared or (type(x1) is array and type(x2) is array) else not_available
        if (result := native(x1, x2)) is not None:
            return result
        if (result := call_after_views(native, x1, x2)) is not None:
            return result
        if type(x1) is array and type(x2) is array:
            x, y = x1.node, x2.node
            dtype = plain.get(x.dtype)
            if dtype is not None and x.dtype is y.dtype and (x.shape == y.shape or not y.shape):
                return combine(x, y, x, dtype, CONTEXT.trace)
        elif operation.operator:
            weak1, weak2 = getattr(x1, "weak", False), getattr(x2, "weak", False)
            if (weak1 and (weak2 or type(x2) in _NUMBERS)) or (weak2 and type(x1) in _NUMBERS):
                return (x1 if weak1 else x2)._weakly(operation, x1, x2)
        return apply_rule(x1, x2)

    return forward, reflected, in_place, function


def _is_exact(value: Any, dtype: Format) -> bool:
    """Return whether a number converts to ``dtype`` with at most one rounding and without a warning."""
    if dtype in _LIMITS:
        least, greatest = _LIMITS[dtype]
        return type(value) is not float and least <= value <= greatest
    if dtype is not FLOAT32 and dtype is not FLOAT64:
        return False
    return value != value or abs(value) <= dtype.reach if type(value) is float else abs(value) <= 1 << 53


def _unary_result(operation: Operation, op: Primitive, dtype: Format) -> Format | None:
    """Return the dtype of the result if the operation is one primitive, without casts, for operands of ``dtype``; else None."""
    try:
        if operation.body is not None or operation.bindings[dtype] != (op, dtype):
            return None
    except DTypeError:
        return None
    return op.rule(Node(op, (), _NO_PARAMS, (), dtype))[1]


def _castless_dtypes(operation: Operation) -> dict[Format, Format]:
    """Return dtype of both operands -> dtype of the result, for the dtypes at which the primitive applies without casts."""
    op, out = TABLE[operation.name], {}
    for dtype in FORMATS.values():
        try:
            castless = operation.bindings[dtype] == (op, dtype)
        except DTypeError:
            continue
        if castless and (operation.name != "pow" or dtype in FLOATS):  # integer powers are checked for negative exponents
            probe = Node(op, (), _NO_PARAMS, (), dtype)
            out[dtype] = op.rule(probe, probe)[1]
    return out


def set_node_marking(on: bool) -> None:
    """Let all operators call user_frame while a profile marks nodes with layers, since the fast path records the line only."""
    global _TRACKED_PATH
    _TRACKED_PATH = "" if on else PACKAGE



_NON_NUMBERS = (str, bytes, dict, set, type(None))
_COMPARABLE = (Cell, np.number, np.bool_, int, float, complex)
_MISSING: Any = object()


def leaves_to_operand(x: Any) -> bool:
    """Return whether an operand is left to its own operators: it is not a number, or it requests precedence."""
    return isinstance(x, _NON_NUMBERS) or has_precedence(x)


def has_precedence(x: Any) -> bool:
    """Return whether an object requests precedence for its operators, as with NumPy: ``__array_ufunc__ = None`` or, without that
    attribute, an ``__array_priority__`` above that of arrays, 0.

    Arrays of other libraries, which know NumPy's arrays but not weft's, are converted instead.
    """
    protocol = getattr(type(x), "__array_ufunc__", _MISSING)
    if protocol is not _MISSING:
        return protocol is None
    return getattr(x, "__array_priority__", 0) > 0 and not hasattr(x, "__dlpack__")


def leaves_to_operand_in_place(x: Any, name: str, operator: str) -> bool:
    """Return :func:`leaves_to_operand` for ``a += x``; raise an error if only an operator of ``x`` can compute the result,
    since ``a`` must stay an array."""
    kind = type(x).__name__
    if getattr(type(x), "__array_ufunc__", _MISSING) is None:
        raise TypeError(f"{name} in place: {kind} has __array_ufunc__ = None, so no array takes it; use a = a + b")
    if not leaves_to_operand(x) and has_reflected(x, operator):
        raise DTypeError(
            f"{name} in place: an array cannot hold the result of {kind}.{_reflected_name(operator)}; "
            "use a = a + b in place of a += b"
        )
    return leaves_to_operand(x)


def _reflected_name(name: str) -> str:
    return f"__{_REFLECTED_COMPARISONS.get(name, 'r' + name)}__"


def has_reflected(x: Any, name: str) -> bool:
    """Return whether weft cannot hold an operand whose class defines the reflected method of an operator."""
    if isinstance(x, _OWN_KINDS):
        return False
    method = getattr(type(x), _reflected_name(name), None)
    if method is None or method is getattr(object, _reflected_name(name), None):
        return False
    try:
        as_node(x)
    except (TypeError, ValueError):
        return True
    return False


def deferring(name: str, compute: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return ``compute`` with NotImplemented in place of its error if only the other operand's reflected method can answer.

    Python then calls this method with the whole array or scalar. NumPy calls it for each element, and makes an object
    array of the results.
    """

    def tried(self: Any, other: Any) -> Any:
        try:
            return compute(self, other)
        except (TypeError, ValueError):
            if not has_reflected(other, name):
                raise
        return NotImplemented

    return tried


def _divmod(self: Any, other: Any) -> Any:
    return NotImplemented if leaves_to_operand(other) or has_reflected(other, "divmod") else (self // other, self % other)


def equality(operation: Any, slow: Callable[[Any, Any], Any], scalar: type) -> Callable[[Any, Any], Any]:
    """Return the general path of ``==`` or ``!=``. Objects that weft cannot hold are compared element by element, too."""
    differs = operation.name == "not_equal"

    def compared(self: Any, other: Any) -> Any:
        if has_precedence(other):
            return NotImplemented
        if isinstance(other, _NON_NUMBERS):
            if type(self) is scalar:
                return differs
            return self._wrap(bind(TABLE["broadcast_to"], constant(differs, BOOL), shape=self.node.shape))
        try:
            return slow(self, other)
        except (TypeError, ValueError) as error:
            if type(self) is scalar and (has_reflected(other, "eq") or has_reflected(other, operation.operator)):
                return NotImplemented
            if isinstance(other, _COMPARABLE) or is_stripped(type(other)):
                raise
            if not isinstance(error, DTypeError) and isinstance(other, _OWN_KINDS):
                raise
        content = self.numpy()
        equal: Any = content != other if differs else content == other
        if not isinstance(equal, np.ndarray | np.bool_):
            return equal
        return self._wrap(numpy_node(np.asarray(equal, bool)))

    return compared
