"""Products of matrices, batches and vectors: ``gemm`` drives panels and tiles, ``microkernel`` is the inner loop of all of them.

``plan`` chooses tile and blocks for a processor, ``pack`` copies operands so that the inner loop reads them in order, ``gemv`` is
for a matrix and a vector, ``epilogue`` stores what else the kernel makes of the sums while they are in registers.
"""
