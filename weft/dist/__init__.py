"""Programs on several processes, the *ranks* of a job: sums, exchanges and messages as functions of arrays.

``weft launch -n 4 script.py`` starts a job. Without it there is one rank, and no MPI is loaded.
"""

from weft.process.lazy_names import load_on_use

_NAMES = {  # file -> its public names; ``tools/stub.py`` writes them into ``__init__.pyi``
    "collectives": "all_gather all_sum all_to_all barrier broadcast recv reduce_scatter send",
    "gradients": "average",
    "groups": "Group group",
    "world": "init rank size",
}

__all__ = sorted(load_on_use(__name__, _NAMES))
