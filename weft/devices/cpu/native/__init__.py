"""The CPU runtime: memory, threads, native calls, and the loading of machine code.

``compile`` takes objects from the disk cache or compiles them with LLVM; ``elf`` and ``code_memory`` load them. ``executable``
builds a table of kernels that one native function executes (``walk_ir``, ``loop_ir``). ``pool_ir`` and ``worker_ir`` are the
thread pool, ``memory_ir`` the allocator's fast path, ``walk_ir`` and ``call_fast_ir`` the entry points for Python,
``operators_ir``, ``parts_ir`` and ``views_ir`` those for small eager operations. Files ending in ``_ir`` emit native functions
(see ``routine``) and are imported only if their object code is not cached. ``layouts`` defines the shared memory records.
"""
