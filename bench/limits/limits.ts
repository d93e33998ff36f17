// Runs the bare programs that measure the machine's limits (limits.cc), built when first
// needed.

import { execFile, execFileSync } from "node:child_process";
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, renameSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

// Compiled, this file is dist/bench/limits/limits.js; the source is beside the TypeScript.
const source = fileURLToPath(new URL("../../../bench/limits/limits.cc", import.meta.url));
const folder = fileURLToPath(new URL("../../../native/build/", import.meta.url));
const program = `${folder}limits`;

const environment = {
  ...process.env,
  OMP_NUM_THREADS: "1",
  OPENBLAS_NUM_THREADS: "1",
  BLIS_NUM_THREADS: "1",
};
const options = { env: environment, encoding: "utf8" } as const;

/**
 * Shared libraries with a `cblas_sgemm`, where Debian puts them: libopenblas0-serial,
 * libblis4-serial.
 */
const blasLibraries = [
  { name: "OpenBLAS", library: "libopenblas.so.0" },
  { name: "BLIS", library: "libblis.so.4" },
] as const;

/** The file of the bare programs, for machines of their own. */
export function limitProgram(): string {
  build();
  return program;
}

/** One limit: its rate, in the unit that limits.cc gives; 0 where it cannot be measured. */
export function limit(...words: (string | number)[]): number {
  build();
  try {
    return JSON.parse(
      execFileSync(program, words.map(String), { ...options, stdio: ["ignore", "pipe", "ignore"] }),
    ).rate;
  } catch {
    return 0;
  }
}

/** The sum of the rates of several processes that measure a limit at once. */
export async function limitOf(threads: number, ...words: (string | number)[]): Promise<number> {
  build();
  const run = promisify(execFile);
  const runs = Array.from({ length: threads }, () => run(program, words.map(String), options));
  const outputs = await Promise.all(runs).catch(() => []);
  return outputs.reduce((sum, { stdout }) => sum + JSON.parse(stdout).rate, 0);
}

/** The three products of a layer. Their operands have different layouts in memory. */
export type Pass = "forward" | "dInput" | "dWeight";

/** The fastest installed BLAS on C (m,n) over k, with operands laid out as in the pass. */
export function bestBlas(
  pass: Pass,
  m: number,
  n: number,
  k: number,
  seconds: number,
): { rate: number; name: string } {
  let best = { rate: 0, name: "no BLAS is installed" };
  for (const { name, library } of blasLibraries) {
    const rate = limit("sgemm", library, pass, m, n, k, seconds);
    if (rate > best.rate) best = { rate, name };
  }
  return best;
}

/**
 * A limit measured by `threads` processes at once, summed, as cores share memory and clock. 0 where
 * it cannot be measured.
 */
export async function sharedLimit(threads: number, ...words: (string | number)[]): Promise<number> {
  try {
    build();
    const runs = Array.from({ length: threads }, async () => {
      const { stdout } = await promisify(execFile)(program, words.map(String));
      return Number(JSON.parse(stdout).rate);
    });
    return (await Promise.all(runs)).reduce((sum, rate) => sum + rate, 0);
  } catch {
    return 0;
  }
}

function build(): void {
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return;
  mkdirSync(folder, { recursive: true });
  const flags = ["-O3", "-march=native", "-ffast-math"];
  // Ctrl-C may end the compiler at any moment, and another bench may compile too: the program is
  // renamed into place only when it is complete.
  const compiled = join(mkdtempSync(join(tmpdir(), "limits-")), "limits");
  execFileSync(process.env.CXX ?? "g++", [...flags, source, "-o", compiled, "-ldl", "-pthread"]);
  const copied = `${program}.${process.pid}`;
  copyFileSync(compiled, copied);
  renameSync(copied, program);
}
