"""What runs when a program runs: memory, threads, calls, and how machine code gets into the process.

``compile`` asks the disk cache, else LLVM; ``elf`` and ``code_memory`` load object files. ``executable`` makes a table of kernels
that one native function walks (``walk_ir``, ``loop_ir``); ``pool_ir`` and ``worker_ir`` are the threads, ``memory_ir`` the
allocator's fast path, ``call_ir`` and ``warm_ir`` what Python calls, and for small work ``operators_ir`` and ``elements_ir``.
Files that end in ``_ir`` write native functions (``routine``), and are only read where there is no object of them yet;
``layouts`` says where shared memory holds what.
"""
