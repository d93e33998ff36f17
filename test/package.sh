#!/bin/sh
# Tests the package as a user installs it: packs it, installs it into an empty project, and runs the
# README's program with the shipped kernels, with the reference kernels, as on a platform without
# shipped ones, and with native kernels that the user compiles. Checks that the shipped kernels run
# on old systems, and give the same bits as kernels that a clone compiles. PACKAGE_SETS names their
# instruction sets, by default all.
set -eu
shipped=none
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$root"
node build.js --all --package
OSIRIS_SETS=${PACKAGE_SETS:-all} sh native/build.sh
if command -v "${CXX:-g++}" >/dev/null; then
  sh test/package-symbols.sh prebuilds/*/osiris.node
  shipped=prebuilds/$(node -p 'process.platform + "-" + process.arch')/osiris.node
  echo "-- the shipped kernels have the bits of the clone's, which npm test compares with the reference"
  node dist/test/kernels/digest.js native/build/osiris.node "$shipped"
fi
tarball=$(npm pack --silent --ignore-scripts --pack-destination "$place" | tail -n 1)
mkdir "$place/project"
cd "$place/project"
echo '{ "name": "empty", "private": true, "type": "module" }' >package.json
npm install --silent --prefer-offline --no-audit --no-fund "$place/$tarball"
test -f node_modules/osiris-train/dist/threads/thread-entry.cjs
test -f node_modules/osiris-train/dist/threads/code-cache.bin
test -f node_modules/osiris-train/dist/processes/osiris.cjs
# The first program of the README, unchanged.
sed -n '/^```js$/,/^```$/p' "$root/README.md" | sed '1d;/^```$/,$d' >program.mjs
grep -q 'from "osiris-train"' program.mjs

# run PROGRAM OUTPUT
run() {
  node "$1" >"$2" 2>&1 || {
    cat "$2"
    echo "The README's program failed"
    exit 1
  }
  cat "$2"
  grep -q 'digest' "$2"
}

shown=$(grep -o '^native-[0-9]*' "$root/README.md")
# is_native FILE: checks that the output names native kernels like the README, without a hint to
# build them.
is_native() {
  if ! grep -q "^$shown" "$1"; then
    echo "The README shows $shown where the program says $(head -n 1 "$1")"
    exit 1
  fi
  if grep -q 'build-native' "$1"; then
    echo "There are native kernels that were not used"
    exit 1
  fi
}

installed=node_modules/osiris-train
if [ -f "$installed/$shipped" ]; then
  # Runs in the background, because fetching a Node waits for the network.
  sh "$root/test/smoke-nodes.sh" . >"$place/nodes" 2>&1 &
  nodes=$!
  echo "-- on the kernels that the package ships"
  run program.mjs shipped.txt
  is_native shipped.txt
  npx osiris doctor | tee doctor.txt
  grep -q 'kernels.*g++.*shipped in' doctor.txt
  rm -rf checkpoints
  echo "-- on the other lines of Node"
  wait "$nodes" && status=0 || status=$?
  cat "$place/nodes"
  [ "$status" -eq 0 ]
fi
rm -rf "$installed/prebuilds"
echo "-- on the reference kernels, which are slow: a tenth of the samples"
sed 's/samples: 50_000/samples: 5000/' program.mjs >short.mjs
grep -q 'samples: 5000' short.mjs
run short.mjs reference.txt
grep -q 'osiris build-native' reference.txt
rm -rf checkpoints
if ! command -v "${CXX:-g++}" >/dev/null; then
  echo "-- there is no C++ compiler here: the native kernels were not built"
  exit 0
fi
echo "-- npx osiris build-native, which replaces a torn file, and on the native kernels"
mkdir "$installed/native/build"
: >"$installed/native/build/osiris.node"
npx osiris doctor >torn.txt && exit 1
grep -q '^fail *kernels .*cannot be loaded (file too short)' torn.txt
OSIRIS_SETS=native npx osiris build-native
run program.mjs native.txt
is_native native.txt
npx osiris doctor | grep -q 'kernels.*compiled here'
