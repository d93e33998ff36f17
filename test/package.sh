#!/bin/sh
# The package as a user gets it: packed, installed into an empty project, and the README's program
# run there, on the reference kernels first and on the native ones once they were built.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$root"
npm run --silent build
tarball=$(npm pack --silent --ignore-scripts --pack-destination "$place" | tail -n 1)
mkdir "$place/project"
cd "$place/project"
echo '{ "name": "empty", "private": true, "type": "module" }' >package.json
npm install --silent --prefer-offline --no-audit --no-fund "$place/$tarball"
test -f node_modules/osiris-train/dist/threads/thread-entry.cjs
test -f node_modules/osiris-train/dist/threads/code-cache.bin
test -f node_modules/osiris-train/dist/processes/osiris.cjs
# The first program of the README, as it stands there.
sed -n '/^```js$/,/^```$/p' "$root/README.md" | sed '1d;/^```$/,$d' >program.mjs
grep -q 'from "osiris-train"' program.mjs

run() {
  node program.mjs >"$1" 2>&1 || {
    cat "$1"
    echo "The README's program failed"
    exit 1
  }
  cat "$1"
  grep -q 'digest' "$1"
}

echo "-- on the reference kernels"
run reference.txt
grep -q 'osiris build-native' reference.txt
rm -rf checkpoints
if ! command -v "${CXX:-g++}" >/dev/null; then
  echo "-- there is no C++ compiler here: the native kernels were not built"
  exit 0
fi
echo "-- npx osiris build-native, and on the native kernels"
npx osiris build-native
run native.txt
shown=$(grep -o '^native-[0-9]*' "$root/README.md")
if ! grep -q "^$shown" native.txt; then
  echo "The README shows $shown where the program says $(head -n 1 native.txt)"
  exit 1
fi
if grep -q 'build-native' native.txt; then
  echo "The native kernels were built and not used"
  exit 1
fi
