"""Functions whose extents are arguments: products, sums and elementwise functions that are not recompiled for a new shape.

Their results have the bits of the kernels compiled for one shape: sums use the same ``Order``, elements the same instructions.
They are called like kernels, with an array of 8-byte words: addresses, extents, strides.
"""

# copies of a product's operand: bytes per step of the sum (two of the widest registers); up to NEAR steps they are on the stack,
# for more the caller passes memory
SCRATCH_BYTES_PER_STEP, MAX_STACK_STEPS = 128, 512
