"""Memory layouts of the records that Python and emitted code share: tables of steps, buffers, the thread pool, warm calls.

A layout maps the fields of a record to their byte offset and type. A table is an array of 8-byte words: named words first, then
lists, from word ``HEADER`` on. Tables of Programs and of loops end in steps, each (function, number of arguments, checks after
the step, slots of the arguments): see ``call.py``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TypeAlias

from weft.devices.cpu.native.imported_symbols import OBJECT, OBJECT_SIZE

Layout: TypeAlias = Mapping[str, tuple[int, str]]


def _words(names: str, pointers: str = "") -> Layout:
    """Return the layout of a record of 8-byte words. ``pointers`` names those that are addresses."""
    return {name: (8 * k, "ptr" if name in pointers.split() else "i64") for k, name in enumerate(names.split())}


def extent(layout: Layout) -> int:
    """Return the bytes of a record of words."""
    return 8 * len(layout)


def offset(layout: Layout, name: str) -> int:
    return layout[name][0]


def fill_record(layout: Layout, fields: Mapping[str, int]) -> list[int]:
    """Return the words of a record in their order."""
    return [fields[name] for name in layout]


def write(address: int, layout: Layout, fields: Mapping[str, int]) -> None:
    """Write a record of words to memory."""
    words = (ctypes.c_int64 * len(layout)).from_address(address)
    for k, word in enumerate(fill_record(layout, fields)):
        words[k] = word


def header(layout: Layout, fields: Mapping[str, int]) -> list[int]:
    """Return the named words of a table, padded to ``HEADER`` words."""
    return fill_record(layout, fields) + [0] * (HEADER - len(layout))


HEADER = 16  # words in front of the lists of a table
RELEASE, FLUSH = 1, 2  # flags of a call: release the interpreter lock; flush denormals to zero
# kinds of input: how an object is converted to an 8-byte slot
UNUSED, ADDRESS, FLOAT32, FLOAT64, INTEGER, BOOLEAN = range(6)
# The table of a Program. ni, no, na, nc, ns, nd: numbers of inputs, outputs, arena offsets, constants, steps, donations.
# workers: threads it was built for. total: number of slots. most: largest number of arguments of a step. name: the attribute
# with a buffer's address. home: of the arena, or 0.
# Lists: kinds of inputs, bytes of outputs, homes of outputs, donations, arena offsets, constants, steps
CALL = _words("ni no na nc ns flags workers total name most allocator home nd", pointers="name allocator home")
# The descriptor of a loop. every: iterations between two checks for signals, 0: never
# Lists: (has a tape, bytes) per carry, strides of stacked operands, of stacked results, arena offsets, constants, steps
# counted: the argument behind the constants is the address of the number of steps. until: see program.Loop
LOOP = _words("length reverse counted until carries xs ys constants na numbers ns total most every")
STEP = _words("function count check", pointers="function")
FAULT = _words("site index")  # the fault record of a run, see call.py

# the list of idle blocks of one size class
HOME = _words("count capacity items size", pointers="items")
ALLOCATOR = _words("type fresh", pointers="type fresh")  # the class Buffer, and Allocator.fresh
# the Python object of a buffer
BUFFER = {
    **OBJECT, "address": (OBJECT_SIZE, "i64"), "nbytes": (OBJECT_SIZE + 8, "i64"), "home": (OBJECT_SIZE + 16, "ptr"),
    "export_count": (OBJECT_SIZE + 24, "i64"), "weak": (OBJECT_SIZE + 32, "ptr"),
}
BUFFER_SIZE = OBJECT_SIZE + 40

MAX_WORKERS = 256
# the state of the thread pool (pool_ir.py); fields that different threads write are on different cache lines
POOL = {
    "generation": (0, "i32"), "sleepers": (4, "i32"),
    "lock": (64, "i64"), "busy": (72, "i32"), "limit": (76, "i32"), "threads": (80, "i32"), "started": (84, "i32"),
    "guests": (88, "i64"),
    "body": (128, "ptr"), "context": (136, "ptr"), "mode": (144, "i32"), "workers": (148, "i32"), "trace": (152, "ptr"),
    "trace_size": (160, "i64"),
    "remaining": (192, "i64"), "waiting": (200, "i32"),
    "ranges": (256, "i64"),
}
CHUNKS = _words("word end")  # a worker's range: (generation << 32) | next chunk; its end
RANGE = 64  # bytes of a worker's range of chunks: a cache line
POOL_SIZE = offset(POOL, "ranges") + RANGE * MAX_WORKERS
# kernel entries (counted by kernels), program runs, parallel jobs, jobs that ran inline, calls of dynamic kernels
COUNTERS = _words("kernels entries jobs inline sized")

# the state of warm calls, written by ``call_tables.install``: addresses of objects, and offsets of slots in objects
WARM_STATE = _words(
    "table address local inside zero structure count slow array scalar_type base content value dtype shape op weak scalar "
    "constant logs node node_slots array_slots",
    pointers="local inside zero structure count slow array scalar_type scalar constant logs node",
)
# The table of one signature. arguments, names: number of all arguments, and the tuple of those that are given by name, None if
# there are none; uses: address of the counter of its calls
# Lists: places of the arguments, watched objects, inputs, written arrays, parts of the result
WARM_TABLE = _words(
    "program arguments names structures uses places watch inputs written parts", pointers="program names structures uses",
)
# A place of the arguments, or a part of the result: (kind, shape or object or class, dtype or slots, first child, children).
# The children of a list, tuple or dict follow it; ``first`` of a dict is the tuple of its keys. ``child`` of the parts OUTPUT and
# ARGUMENT is the number of the Program's output, or of a place of the arguments
WARM_ROW = _words("kind first second child children", pointers="first second")
ARRAY, FLOAT, SAME, VALUE, LIST, TUPLE, DICT, OUTPUT, ARGUMENT = range(9)
WATCH_ROW = _words("kind container key value", pointers="container value")  # key: an object, an index, or a length
VARIABLE, CELL, ITEMS, ITEM, KEYS, NEXT_ITEM = range(6)  # kinds of watched objects, see call_fast_ir.are_unchanged
WARM_INPUT = _words("kind place node", pointers="node")  # place: number of a place of the arguments, or an object
OF_ARRAY, OF_NUMBER, OF_CELL, FIXED = range(4)  # kinds of program inputs
# A written array: its input, the output that takes its memory, and the references to its node and buffer that nobody else has
WARM_WRITTEN = _words("input output nodes buffers")

RELEASE_ABOVE_WORK = 1 << 18  # elements, or steps of a sum, above which a dynamic kernel releases the interpreter lock
MAX_KEPT = 256  # dead Scalars that are kept for the next elements that are read
MAX_SMALL_BYTES = 1 << 20  # bytes of the largest result of a native small operation

# The state of small operations (small_ir.py), written by ``call_tables.CPUSmall``. thread: id of the thread whose dict of
# thread-local attributes is ``own``; limit: name of the attribute with the largest result; homes: per size class; formats: table
# of FORMAT rows; array to params: classes and offsets of slots, and NumPy's class of arrays; node, result: pairs (offset,
# object), the initial slots of new nodes and arrays; weak: offset of a node's weak references; steps, before, index: offsets of
# slots of views; view: their initial slots; shapes: table of SHAPE rows; cache_part: weft_cache_part, 0 until it
# is loaded; view_reads: ``cell.VIEW_READS``; transposes: a tuple of paths by dimensions; reshaped: the ``index`` of reshapes;
# kept, kept_scalars: number and list of the Scalars that are kept; scalar_weak, array_offsets: offsets of weak references and of
# all slots of a Scalar
SMALL_STATE = _words(
    "thread own local dict limit homes formats format_count array scalar_type base content source layout ndarray "
    "node_type value dtype shape op params weak leaf nothing empty reduced node node_slots result result_slots allocator "
    "steps before index view view_slots shapes cache_part view_reads transposes reshaped "
    "kept kept_scalars scalar_weak array_offsets array_offset_count",
    pointers="own local dict limit homes formats array scalar_type ndarray node_type leaf nothing empty reduced node result "
    "allocator view shapes cache_part view_reads transposes reshaped kept_scalars array_offsets",
)
# kind: FLOAT32, ... UNSIGNED, UNUSED: how a number is read and written; least, most: range of accepted Python ints
FORMAT = _words("dtype numpy bytes kind least most", pointers="dtype numpy")  # numpy: NumPy's dtype
# Where the elements of a small array lie: its node, or that of its base; a FORMAT row; extents and strides (in bytes) as C arrays
PLACE = _words("node format address shape dims extents strides size", pointers="node format shape extents strides")
# A row of the hash table of SHAPES rows: extents and strides of a view as words, and as the tuples that later views share
SHAPE = {**_words("dims shape strides", pointers="shape strides"), "words": (24, "i64")}  # extents, then strides
SHAPES, SHAPE_DIMS = 64, 4
SHAPE_SIZE = 24 + 16 * SHAPE_DIMS
UNSIGNED = 6  # a kind in addition to those of inputs
OPERATION = _words("count rows", pointers="rows")  # a row for each supported dtype
OPERATION_ROW = _words("dtype function op result bytes format", pointers="dtype function op result format")
# A prepared call, in a hash table of PLACES entries. owner: keeps the objects here alive; first, second, out: positions of the
# addresses among the words
PLAN = _words(
    "owner dtype left right function words count first second out nbytes result shape params",
    pointers="owner dtype left right function words result shape params",
)
PLACES = 64
