"""Check for missing packages, on machines to which a checkout was copied without installation."""

from __future__ import annotations

import importlib.util

PACKAGES = {  # module -> package
    "numpy": "numpy", "scipy": "scipy", "llvmlite": "llvmlite", "ml_dtypes": "ml_dtypes", "optree": "optree",
    "opt_einsum": "opt_einsum", "rich": "rich",
}


def missing_packages() -> str | None:
    """Return a sentence that names all missing packages, or None. Devices check for further packages themselves."""
    missing = [package for module, package in PACKAGES.items() if importlib.util.find_spec(module) is None]
    if not missing:
        return None
    message = f"bench gpu: not installed here: {', '.join(missing)}"
    return f"{message}. pip install {' '.join(missing)}; without a network, bring wheels along (docs/guide/gpu.md says how)"
