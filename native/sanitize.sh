#!/bin/sh
# Runs the kernels on random shapes under the address and undefined-behaviour sanitizers, and the
# kernels in parts under the thread sanitizer. Fails where a sanitizer reports an error, a number is
# wrong, or the compiler warns. Without a compiler it prints a message and exits with success. CXX
# names another compiler, OSIRIS_JOBS the number of parts compiled at once (default: one per core).
#
#   sh native/sanitize.sh [--portable | --addon FILE]
#
# --portable: runs portable code too, which takes as long again.
# FILE: instead of running the kernels, compiles the addon under the sanitizers into this file,
# which `npm run fuzz` loads; only where a source is newer.
set -eu
addon=
more=
[ "${1:-}" != --portable ] || more=portable
if [ "${1:-}" = --addon ]; then
  addon=$(mkdir -p "$(dirname "$2")" && cd "$(dirname "$2")" && pwd)/$(basename "$2")
fi
cd "$(dirname "$0")"
compiler=${CXX:-g++}
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "osiris: there is no C++ compiler ($compiler); the kernels were not sanitized"
  exit 0
fi
. ./parts.sh
if [ -f "$addon" ] &&
  [ -z "$(find . -path ./build -prune -o -type f \( -name '*.cc' -o -name '*.h' \) \
    ! -path './test/*' -newer "$addon" -print)" ]; then
  exit 0
fi
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
objects=build/sanitized.$$
trap 'rm -rf "$objects"' EXIT
mkdir -p "$objects"
if [ -n "$addon" ]; then
  # Only portable code, as the readers of files have no other. Errors end the process.
  sets=portable
  compile_parts "$objects" "$(list_parts "$sets" bindings/addon:)" \
    -O1 -g1 -fPIC -std=c++17 -fno-math-errno -ffp-contract=off -fsanitize=address,undefined \
    -fno-sanitize-recover=all -fno-omit-frame-pointer -fvisibility=hidden -I . -I "$headers"
  "$compiler" -shared -fsanitize=address,undefined "$objects"/*.o -o "$objects/addon"
  mv "$objects/addon" "$addon"
  exit 0
fi
# The sets that this processor uses; the code of others is parsed.
sets=$(choose_sets native)
are_among "$sets" portable || sets="$more $sets"
warnings="-Wall -Wextra -Werror"
others=
for set in $(instruction_sets); do are_among "$sets" "$set" || others="$others $set"; done
for part in $(list_parts "$others" bindings/addon: | grep -E '^bindings|:.'); do
  # shellcheck disable=SC2086
  "$compiler" -fsyntax-only -std=c++17 $warnings -DOSIRIS_ISA="${part#*:}" -I . -I "$headers" \
    "${part%:*}.cc"
done
# Unoptimized, with line tables only: this compiles in a third of the time.
# shellcheck disable=SC2086
compile_parts "$objects" "$(list_parts "$sets" test/kernels-test:)" \
  -O0 -g1 -std=c++17 $warnings -fno-math-errno -ffp-contract=off -pthread \
  -fsanitize=address,undefined -fno-sanitize-recover=all -I .
"$compiler" -pthread -fsanitize=address,undefined "$objects"/*.o -o "$objects/kernels-test"
echo "osiris: running the kernels under the sanitizers"
runs=
for part in $sets input; do
  "$objects/kernels-test" "$part" &
  runs="$runs $!"
done
for run in $runs; do wait "$run"; done
# Portable code, as races do not depend on the set. Unoptimized, as above.
sets=portable
rm -r "$objects" && mkdir "$objects"
compile_parts "$objects" "$(list_parts "$sets" test/threads-test:)" \
  -O0 -g1 -std=c++17 -fno-math-errno -ffp-contract=off -pthread -fsanitize=thread -I .
"$compiler" -pthread -fsanitize=thread "$objects"/*.o -o "$objects/threads-test"
echo "osiris: running kernels in parts under the thread sanitizer"
"$objects/threads-test"
