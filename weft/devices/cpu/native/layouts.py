"""Where what Python and emitted code share lies in memory, by name: tables of steps, buffers, the pool, warm calls.

A layout names the fields of a record: where each begins, in bytes, and its type. A table is an array of 8-byte words: named
ones first, from ``HEADER`` words on lists. Both kinds of table end in steps, each (function, number of arguments, what to look
at afterwards, slots of the arguments): see ``tables.py``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from typing import TypeAlias

from weft.devices.cpu.native.imported_symbols import OBJECT, OBJECT_SIZE

Layout: TypeAlias = Mapping[str, tuple[int, str]]


def _words(names: str, pointers: str = "") -> Layout:
    """A record of 8-byte words; ``pointers``: those that are addresses."""
    return {name: (8 * k, "ptr" if name in pointers.split() else "i64") for k, name in enumerate(names.split())}


def extent(layout: Layout) -> int:
    """In bytes, of a record of words."""
    return 8 * len(layout)


def offset(layout: Layout, name: str) -> int:
    return layout[name][0]


def filled(layout: Layout, fields: Mapping[str, int]) -> list[int]:
    """The words of a record."""
    return [fields[name] for name in layout]


def write(address: int, layout: Layout, fields: Mapping[str, int]) -> None:
    """Fill a record of words in memory."""
    words = (ctypes.c_int64 * len(layout)).from_address(address)
    for k, word in enumerate(filled(layout, fields)):
        words[k] = word


def header(layout: Layout, fields: Mapping[str, int]) -> list[int]:
    """The named words of a table, filled up to where its lists begin."""
    return filled(layout, fields) + [0] * (HEADER - len(layout))


HEADER = 16  # where the lists of a table begin, in words
RELEASE, FLUSH = 1, 2  # flags of a call: give up the interpreter lock; flush denormals to zero
# kinds of input: how an object becomes an 8-byte slot
UNUSED, ADDRESS, FLOAT32, FLOAT64, INTEGER, BOOLEAN = range(6)
# ni, no, na, nc, ns, nd: how many inputs, outputs, arena offsets, constants, steps, donations. workers: threads it is made
# for. total: slots. most: arguments of a step. name: the attribute that holds a buffer's address. home: of the arena, or 0.
# left: runs until ``hot`` is called, a Python object; 0: never. Of a step: where the address of its function lies.
# behind it: kinds of inputs, bytes of outputs, homes of outputs, donations, arena offsets, constants, steps
CALL = _words("ni no na nc ns flags workers total name most allocator home nd left hot", pointers="name allocator home hot")
# every: steps of the loop between two looks for signals, 0: never
# behind it: a pair (has a tape, bytes) a carry, strides of operands, strides of results, arena offsets, numbers, steps
LOOP = _words("length reverse carries xs ys constants na numbers ns total most every")
STEP = _words("function count check", pointers="function")
FAULT = _words("site index")  # the record of a run, see tables.py

# of the memory of one size class: its list of idle blocks
HOME = _words("count capacity items size", pointers="items")
ALLOCATOR = _words("type fresh", pointers="type fresh")  # the class Buffer, and what gets a block from the system
# the Python object of an array's memory: its class, then its own fields
BUFFER = {
    **OBJECT, "address": (OBJECT_SIZE, "i64"), "nbytes": (OBJECT_SIZE + 8, "i64"), "home": (OBJECT_SIZE + 16, "ptr"),
    "exported": (OBJECT_SIZE + 24, "i64"), "weak": (OBJECT_SIZE + 32, "ptr"),
}
BUFFER_SIZE = OBJECT_SIZE + 40

MAX_WORKERS = 256
# of the thread pool (pool_ir.py); what different threads write lies on different cache lines
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
RANGE = 64  # bytes a worker's range of chunks takes: a cache line
POOL_SIZE = offset(POOL, "ranges") + RANGE * MAX_WORKERS
# kernel entries (written by kernels), program runs, parallel jobs, calls that ran inline, calls of functions of any size
COUNTERS = _words("kernels entries jobs inline sized")

# of warm calls, which ``warm.install`` fills in: addresses of objects, and offsets of slots within them
WARM_STATE = _words(
    "table address local inside zero structure count slow array scalar_type base content value dtype shape op scalar",
    pointers="local inside zero structure count slow array scalar_type scalar",
)
# of one warm call; behind it the arguments, what is watched, the inputs, and the slots of a fresh Node and of a fresh Array
WARM_TABLE = _words(
    "program arguments structures watch inputs node node_slots result array_slots", pointers="program structures node result",
)
WARM_ROW = _words("kind first second", pointers="first second")  # an argument: (kind, shape or object, dtype)
ARRAY, FLOAT, SAME, VALUE = range(4)  # what an argument must be
WATCH_ROW = _words("kind container key value", pointers="container value")  # key: an object, an index, or a length
VARIABLE, CELL, ITEMS, ITEM, KEYS, NEXT = range(6)  # what must be as it was: see ``weft.devices.native_protocols``
WARM_INPUT = _words("kind place node", pointers="node")  # place: among the arguments, or the object
OF_ARRAY, OF_NUMBER, OF_CELL, FIXED = range(4)  # where an input is found

MUCH = 1 << 18  # elements, or steps of a sum: for more a function of any size gives up the interpreter lock
LARGEST = 1 << 20  # bytes: the homes for results of small work go so far

# of small work (small_ir.py), which ``small.Small`` fills in. thread: whose dict of thread-local words ``own`` is; limit: the
# word for how many bytes a result may have; homes: of each size class; formats: what each is in memory; array .. params: classes,
# offsets of slots, and what they hold; node, result: pairs (offset, object) of what fresh ones always hold; weak: where a node
# has its weak references
SMALL_STATE = _words(
    "thread own local dict limit homes formats format_count array scalar_type base content source "
    "node_type value dtype shape op params weak leaf nothing empty reduced node node_slots result result_slots allocator",
    pointers="own local dict limit homes formats array scalar_type node_type leaf nothing empty reduced node result "
    "allocator",
)
# kind: FLOAT32, ... UNSIGNED, UNUSED: how a number is written and read; least, most: of Python's integers beside it
FORMAT = _words("dtype bytes kind least most", pointers="dtype")
UNSIGNED = 6  # one more kind
OPERATION = _words("count rows", pointers="rows")  # for each format that has a function: a row
OPERATION_ROW = _words("dtype function op result bytes format", pointers="dtype function op result format")
# of a prepared call, in a table of PLACES by shapes: owner holds what is named here; first, second: places of addresses in words
PLAN = _words(
    "owner dtype left right function words count first second out nbytes result shape params",
    pointers="owner dtype left right function words result shape params",
)
PLACES = 64
