"""Reasons why two operations are not in one kernel: a sentence each, shown by explain."""

from __future__ import annotations

OTHER_INDEX = "it reads a reduced or multiplied value at another index than the one it is computed at"
RESHAPE = "a reshape that no index expression can follow: the value is stored and read under its new shape"
TWO_PRODUCTS = "two products: each product is a kernel of its own"
PRODUCT_OPERAND = "operands of a product are read from memory"
PRODUCT_REDUCED = "a reduction of a product: the product must be complete first"
PRODUCT_TALLIED = "this device computes the reductions of a product in a kernel of their own"
PRODUCT_DOMAIN = "a product's kernel stores only arrays of the product's shape"
CYCLE = "would form a cycle: a third kernel depends on one of the two and is needed by the other"
REDUCE_AXES = "reductions keep different axes"
TOO_LARGE = "group too large"
GATHERED_READ = "it is read at positions that are known only at run time, so it is stored first"
ROWS = "it has other readers and selects rows of memory, so its kernel ends before the rows are read"
COSTLY_WINDOWS = "its windows overlap or are costly to compute again, so it is stored first"
RECOMPUTE = "it is costly and would be computed again for every element it is broadcast to"
TOO_MANY_POSITIONS = "it would be computed again at too many positions, so it is stored first"
SINGLE = "it is one number that several kernels read, so it is computed once"
SPLITTING = "it needs two ways of splitting one axis"
POOLING_GRADIENT = "it reads the gradient of windows, which has other readers and is stored once, by loops without reductions"
FASTER_ALONE = "a reduction of many rows runs faster alone than with operations on other arrays, and its result is small"
IN_PLACE = "a scatter or a partial write ends its kernel"
READ_FIRST = "it reads an array before part of the array is written, so that the write need not copy the array"
HOST = "it runs in NumPy"
LOOP = "a loop is a step of its own: its operands and results are stored in memory"
ATTENTION_ENDS = "attention ends its kernel: other kernels read its results"
RUNNING = "a running sum, product or extreme is computed along an ordered axis of its own"
CHEAP_FROM_STORED = "it is cheap to compute from stored arrays, so the kernel that reads it computes it"
NO_COMMON_OPERATION = "no operation joins them"

OF_PRODUCTS = frozenset((PRODUCT_REDUCED, PRODUCT_TALLIED))  # why a reduction is not in the kernel of the product that it reads


class NotFusible(Exception):
    """A kernel cannot be built from a group of nodes; ``reason`` is one of the sentences above."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason
