"""Which of the packages that weft needs are missing, on machines where a checkout was put without installing it."""

from __future__ import annotations

import importlib.util

PACKAGES = {  # by what is imported
    "numpy": "numpy", "scipy": "scipy", "llvmlite": "llvmlite", "ml_dtypes": "ml_dtypes", "optree": "optree",
    "opt_einsum": "opt_einsum", "safetensors": "safetensors", "rich": "rich",
}


def missing_packages() -> str | None:
    """Return a sentence that names all missing packages at once, or None. What a device needs beside them is told by it."""
    found = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if not found:
        return None
    what = f"bench gpu: not installed here: {', '.join(found)}"
    return f"{what}. pip install {' '.join(found)}; without a network, bring wheels along (docs/guide/gpu.md says how)"
