#!/bin/sh
# Builds native/build/osiris.node, only when a source is newer. Reports its progress on stdout, and
# the compiler's complaints on stderr. Without a compiler it says so and exits with success: the
# reference kernels are used. CXX names another compiler, OSIRIS_JOBS the number of parts compiled
# at the same time (default: one per core). OSIRIS_VERBOSE=1 prints every command.
set -eu
cd "$(dirname "$0")"
addon=build/osiris.node
if [ -f "$addon" ]; then
  newer=$(find . -path ./build -prune -o -type f \( -name '*.cc' -o -name '*.h' -o -name '*.sh' \) \
    ! -name sanitize.sh ! -path './test/*' -newer "$addon" -print)
  [ -n "$newer" ] || exit 0
fi
compiler=${CXX:-g++}
if ! command -v "$compiler" >/dev/null 2>&1; then
  echo "osiris: there is no C++ compiler ($compiler); using the reference kernels, which are slow" >&2
  exit 0
fi
. ./parts.sh
# Found from the package's own folder, so that another project's node_modules will do too.
headers=$(cd .. && node -p "require('node-api-headers').include_dir")
link=
[ "$(uname)" != Darwin ] || link="-undefined dynamic_lookup"
mkdir -p build
objects=build/objects.$$
built=build/osiris.$$.tmp
trap 'rm -rf "$objects" "$built"' EXIT
mkdir "$objects"
started=$(date +%s)
sets=$(instruction_sets)
parts="$(list_parts "$sets") bindings/addon: kernels:"
echo "osiris: compiling the kernels with $("$compiler" --version 2>/dev/null | head -n 1)"
# shellcheck disable=SC2086,SC2116
echo "osiris: $(echo "$parts" | wc -w | tr -d ' ') parts, for $(echo $sets), on $(count_cores) cores: about a minute on two"
# Warnings stop CI (sanitize.sh), not a user with another compiler.
# No fused multiply-add except where the source has one, and no liberties of -ffast-math.
compile_parts "$objects" "$parts" \
  -O3 -fPIC -std=c++17 -fno-math-errno -ffp-contract=off -fvisibility=hidden -I . -I "$headers"
tell_command "$compiler" -shared "$objects/*.o" -o "$built" "$link"
# shellcheck disable=SC2086
"$compiler" -shared "$objects"/*.o -o "$built" $link
# A process that loads the addon during the build sees the old file or the new one, whole.
mv "$built" "$addon"
echo "osiris: compiled and linked the kernels in $(($(date +%s) - started)) s"
