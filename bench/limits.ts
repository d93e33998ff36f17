// Runs the bare programs that measure the machine's limits (limits/limits.cc), built when first
// needed.

import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, statSync } from "node:fs";
import { fileURLToPath } from "node:url";

// Compiled, this file is dist/bench/limits.js; the source is beside the TypeScript.
const source = fileURLToPath(new URL("../../bench/limits/limits.cc", import.meta.url));
const folder = fileURLToPath(new URL("../../native/build/", import.meta.url));
const program = `${folder}limits`;

/**
 * Shared libraries with a `cblas_sgemm`, where Debian puts them: libopenblas0-serial,
 * libblis4-serial.
 */
const blasLibraries = [
  { name: "OpenBLAS", library: "libopenblas.so.0" },
  { name: "BLIS", library: "libblis.so.4" },
] as const;

/** One limit: its rate, in the unit that the program's comment gives. 0 where it cannot be had. */
export function limit(...words: (string | number)[]): number {
  build();
  try {
    const environment = { ...process.env, OPENBLAS_NUM_THREADS: "1", BLIS_NUM_THREADS: "1" };
    const text = execFileSync(program, words.map(String), {
      env: environment,
      encoding: "utf8",
      stdio: ["ignore", "pipe", "ignore"],
    });
    return JSON.parse(text).rate;
  } catch {
    return 0;
  }
}

/** The products of a layer's pass: their operands lie in memory in different ways. */
export type Pass = "forward" | "dInput" | "dWeight";

/** The fastest BLAS that is installed, on C (m,n) over k as the pass has it. */
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

function build(): void {
  if (existsSync(program) && statSync(program).mtimeMs > statSync(source).mtimeMs) return;
  mkdirSync(folder, { recursive: true });
  const flags = ["-O3", "-march=native", "-ffast-math"];
  execFileSync(process.env.CXX ?? "g++", [...flags, source, "-o", program, "-ldl"]);
}
