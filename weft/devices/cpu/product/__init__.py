"""Products of matrices, batches and vectors: ``gemm`` drives panels and tiles around the inner loop in ``microkernel``.

``tiling`` chooses tile and blocks for a processor, ``pack`` copies operands so that the inner loop reads them in order, ``gemv``
multiplies a matrix and a vector, ``dot`` multiplies units of 8-bit integers, and ``epilogue`` computes and stores the rest of the
kernel from the sums in registers.
"""
