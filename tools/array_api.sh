#!/bin/sh
# The array API's own suite, on weft and on NumPy in the same run: tools/array_api.sh CHECKOUT [EXAMPLES]
#
# CHECKOUT is one of github.com/data-apis/array-api-tests with its submodule (git clone --recursive), whose requirements.txt is
# installed (pip install -r CHECKOUT/requirements.txt) in the environment of $PYTHON (default: .venv/bin/python).
# What weft answers otherwise, each with its reason, stands in tools/array_api_skips.txt; anything else that fails is a fault.
# NumPy has no list: its count says how many of the suite's demands the standard's model does not meet either.
set -u
here=$(cd "$(dirname "$0")/.." && pwd)
suite=$(cd "${1:?tools/array_api.sh CHECKOUT [EXAMPLES]}" && pwd)
examples=${2:-20}
python=${PYTHON:-$here/.venv/bin/python}
skips=$(mktemp)
trap 'rm -f "$skips"' EXIT
grep -v '^ *#' "$here/tools/array_api_skips.txt" | grep . > "$skips"

run() {
    echo "== $1, $examples examples"
    (cd "$suite" && PYTHONPATH="$here${PYTHONPATH:+:$PYTHONPATH}" ARRAY_API_TESTS_MODULE="$1" ARRAY_API_TESTS_VERSION=2025.12 \
        "$python" -m pytest -q -p no:cacheprovider --tb=short --disable-warnings --disable-deadline --derandomize --max-examples="$examples" \
        array_api_tests --skips-file="$2" > "$skips.$1" 2>&1)
    status=$?
    grep '^FAILED' "$skips.$1"
    tail -n 1 "$skips.$1"
    rm -f "$skips.$1"
    return $status
}

run numpy /dev/null
run weft "$skips"
