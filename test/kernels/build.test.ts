// The output of the script that compiles the kernels. The test uses a fake compiler, whose probe of
// the processor reports TRIED_RUNS; without that variable all instruction sets are compiled.

import { spawnSync } from "node:child_process";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join, resolve } from "node:path";
import test, { type ExecutionContext } from "ava";
import { startDirectory } from "../data/data-files.ts";
import { testAll, testIf } from "../helpers/needs.ts";

/**
 * A fake compiler: it reports two instruction sets, takes TRIED_SECONDS for one part, and fails for
 * the source in TRIED_FAILS; with TRIED_STUB it does nothing but fail.
 */
const compiler = `#!/bin/sh
[ -z "\${TRIED_STUB:-}" ] || { echo "tried: no developer tools" >&2; exit 1; }
case "$*" in
  *-fsyntax-only*) exit 0 ;;
  --version) echo "tried 1.2.3"; exit 0 ;;
  *"-E -P"*) echo "portable avx2"; exit 0 ;;
  *\${TRIED_FAILS:-nothing}*) echo "tried: no such thing" >&2; exit 1 ;;
  *portable*dense/dense.cc*) sleep "\${TRIED_SECONDS:-0}" ;;
esac
source=$*
while [ "$1" != -o ]; do shift; done
case "$source" in
  *probe.cc*)
    [ -n "\${TRIED_RUNS:-}" ] || exit 1
    printf '#!/bin/sh\\necho %s\\n' "$TRIED_RUNS" > "$2"; chmod +x "$2" ;;
  *) echo compiled > "$2" ;;
esac
`;

/** Makes a folder with the build script and the fake compiler. */
function startBuild(t: ExecutionContext) {
  const home = startDirectory(t);
  mkdirSync(join(home, "native"));
  for (const file of ["build.sh", "parts.sh"]) {
    copyFileSync(resolve("native", file), join(home, "native", file));
  }
  symlinkSync(resolve("node_modules"), join(home, "node_modules"));
  const path = join(home, "tried");
  writeFileSync(path, compiler);
  chmodSync(path, 0o755);
  const build = (more: Record<string, string> = {}) =>
    spawnSync("sh", [join(home, "native", "build.sh")], {
      encoding: "utf8",
      env: { ...process.env, CXX: path, OSIRIS_JOBS: "2", OSIRIS_SETS: "", ...more },
    });
  return { build, addon: join(home, "native", "build", "osiris.node") };
}

test("a build compiles this processor's sets, and again where another processor runs it", (t) => {
  const { build, addon } = startBuild(t);
  const record = addon.replace(/node$/, "sets");
  t.regex(build({ TRIED_RUNS: "avx2" }).stdout, /^osiris: 12 parts, for avx2, on/m);
  t.is(readFileSync(record, "utf8"), "avx2\n");
  t.is(build({ TRIED_RUNS: "avx2" }).stdout, "");
  rmSync(join(dirname(addon), "probe"));
  t.regex(build({ TRIED_RUNS: "avx512" }).stdout, /^osiris: 12 parts, for avx512, on/m);
});

test("a build of all sets serves every processor", (t) => {
  const { build } = startBuild(t);
  t.regex(build({ OSIRIS_SETS: "all" }).stdout, /^osiris: 19 parts, for portable avx2, on/m);
  t.is(build({ TRIED_RUNS: "avx2" }).stdout, "");
  t.is(build({ OSIRIS_SETS: "portable" }).stdout, "");
});

test("a compiler that always fails, or is missing, fails no build: its words are printed", (t) => {
  const { build, addon } = startBuild(t);
  const { status, stdout, stderr } = build({ TRIED_STUB: "1" });
  t.is(status, 0);
  t.is(stdout, "");
  t.regex(
    stderr,
    /^osiris: there is no C\+\+ compiler \(tried: no developer tools\): .* Install g\+\+ /,
  );
  t.false(existsSync(addon));
  const missing = build({ CXX: "no-compiler" });
  t.is(missing.status, 0);
  t.regex(missing.stderr, /^osiris: there is no C\+\+ compiler \(.*no-compiler: .*not found\)/);
});

test("an OSIRIS_SETS of blanks chooses this processor's sets", (t) => {
  t.regex(
    startBuild(t).build({ OSIRIS_SETS: " ", TRIED_RUNS: "avx2" }).stdout,
    /12 parts, for avx2,/,
  );
});

test("a set that the compiler does not know is refused by name", (t) => {
  const { status, stdout, stderr } = startBuild(t).build({ OSIRIS_SETS: "avx2 sparc" });
  t.is(status, 2);
  t.regex(stderr, /^osiris: OSIRIS_SETS names avx2 sparc: .* compiles portable avx2$/m);
  t.is(stdout, "");
});

test("a build prints compiler, parts and progress, and nothing if all is built", (t) => {
  const { build, addon } = startBuild(t);
  const { status, stdout, stderr } = build({ TRIED_SECONDS: "3" });
  t.is(status, 0, stderr);
  t.true(existsSync(addon));
  const lines = stdout.trimEnd().split("\n");
  t.is(lines[0], "osiris: compiling the kernels with tried 1.2.3");
  t.regex(lines[1] ?? "", /^osiris: 19 parts, for portable avx2, on \d+ cores$/);
  t.regex(
    lines[2] ?? "",
    /^osiris: compiling the kernels: \d+ of 19 parts, 2 s; now.* dense\/dense:portable/,
  );
  t.regex(lines.at(-1) ?? "", /^osiris: compiled and linked the kernels in \d+ s$/);
  t.is(build().stdout, "");
});

testIf(testAll)("a verbose build prints every command", (t) => {
  const { build } = startBuild(t);
  const { stdout } = build({ OSIRIS_VERBOSE: "1" });
  t.is(stdout.match(/^osiris: \S+tried -O3 .*-c \S+\.cc$/gm)?.length, 19);
  t.regex(stdout, /^osiris: \S+tried -shared build\/objects/m);
});

test("a compiler error is printed, and leaves no addon", (t) => {
  const { build, addon } = startBuild(t);
  const { status, stderr } = build({ TRIED_FAILS: "tiers/tiers" });
  t.not(status, 0);
  t.regex(stderr, /^tried: no such thing$/m);
  t.false(existsSync(addon));
});
