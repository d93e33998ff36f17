// Requirements of tests that a machine may lack: a nats-server, the native kernels, RocksDB, real
// data. A test with such a need is declared by `testIf`, which skips it if the need is not met;
// `npm test` lists the skipped tests and the reasons at its end. In CI (CI=true) a test fails if
// the machine lacks what CI can have. The golden trainings are in the repository: a test without
// them fails anywhere.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import test, { type ExecutionContext, type Implementation, type SerialFn, type SkipFn } from "ava";
import { lacksForMachines } from "../../bench/machines/machines.ts";
import {
  createNative,
  type InstructionSet,
  isCompiledFor,
  limitIsa,
  resetIsa,
} from "../../src/kernels/native/native.ts";
import { note } from "../runner/notes.ts";
import { hasNatsServer } from "./nats/nats.ts";
import { isTestAll } from "./thinned.ts";

/** The directory of real data, if present. */
export const dataHome = "../shared/data";

export interface Need {
  readonly isMet: () => boolean;
  /** The reason why the test is skipped: a sentence. */
  readonly reason: string;
  /** Whether CI fails if the need is not met. @default false */
  readonly isRequired?: boolean;
}

export const natsServer: Need = {
  isMet: hasNatsServer,
  reason: "There is no nats-server on the PATH.",
  isRequired: true,
};

export const nativeKernels: Need = {
  isMet: () => createNative() !== undefined,
  reason: "The native kernels are not built: run `npm run build`.",
  isRequired: true,
};

/** Whether a program exists, and ends without an error. */
function runs(program: string, ...args: readonly string[]): boolean {
  try {
    execFileSync(program, args, { stdio: "ignore" });
    return true;
  } catch {
    return false;
  }
}

/** Whether a package is installed, with the binaries that it loads at once. */
function loads(name: string): boolean {
  try {
    createRequire(import.meta.url)(name);
    return true;
  } catch {
    return false;
  }
}

/** RocksDB; its package has binaries for linux-x64 and darwin-arm64. */
export const rocksDb: Need = {
  isMet: () => loads("rocksdb"),
  reason: "RocksDB has no binary for this platform, or was not installed.",
  isRequired: true,
};

/** Ceph's S3 server, a real one, with the daemons that it needs. */
export const cephServer: Need = {
  isMet: () => ["ceph-mon", "ceph-osd", "radosgw"].every((program) => runs(program, "--version")),
  reason: "Ceph's S3 server is not installed (Debian: ceph-mon, ceph-osd, radosgw).",
};

export const separateMachines: Need = {
  isMet: () => lacksForMachines() === undefined,
  get reason() {
    return lacksForMachines() ?? "";
  },
};

export const linux: Need = {
  isMet: () => process.platform === "linux",
  reason: "This is not Linux: there are no /dev/full and no /proc.",
};

export const natsPy: Need = {
  isMet: () => runs("python3", "-c", "import nats.aio.client"),
  reason: "nats-py is not installed: another client sends the same messages.",
};

export const python3: Need = {
  isMet: () => runs("python3", "--version"),
  reason: "There is no python3 on the PATH.",
};

/** Where Debian's Go finds the sources of Debian's packages, without a module proxy. */
export const goEnvironment = { GO111MODULE: "off", GOPATH: "/usr/share/gocode" };

export const goTemplates: Need = {
  isMet: () =>
    runs("go", "version") && existsSync(`${goEnvironment.GOPATH}/src/github.com/Masterminds/sprig`),
  reason:
    "Go, Sprig and its YAML (golang-go, golang-github-masterminds-sprig-dev, " +
    "golang-k8s-sigs-yaml-dev) are not installed: no chart is rendered.",
};

export const kubernetesTypes: Need = {
  isMet: () => loads("kubernetes-types/package.json"),
  reason: "kubernetes-types is not installed: run `npm ci`.",
  isRequired: true,
};

export const packageTypes: Need = {
  isMet: () => existsSync("dist/index.d.ts"),
  reason: "The types of the package are not built: run `npm run build -- --package`.",
};

export const curl: Need = {
  isMet: () => runs("curl", "--version"),
  reason: "There is no curl on the PATH.",
};

export const officialSafetensors: Need = {
  isMet: () => runs("python3", "-c", "import numpy, safetensors"),
  reason: "Python's safetensors and numpy are not installed: the official reader reads no file.",
};

/** The path of a Python with PyTorch: the first on the PATH, or that of the system. */
export function pythonWithTorch(): string | undefined {
  // To import PyTorch takes seconds of the processor.
  const program = 'import importlib.util as u, sys; sys.exit(u.find_spec("torch") is None)';
  return ["python3", "/usr/bin/python3"].find((one) => runs(one, "-c", program));
}

export const pyTorch: Need = {
  isMet: () => pythonWithTorch() !== undefined,
  reason: "PyTorch is not installed: files that it wrote earlier are read instead.",
};

/**
 * A file of real data. The data's terms do not allow them in the repository, so they lie beside it.
 */
export function dataFile(file: string): Need {
  return {
    isMet: () => existsSync(resolve(dataHome, file)),
    reason: `${dataHome}/${file} is not here.`,
  };
}

/**
 * An instruction set that the processor has and the native kernels were compiled for. A clone
 * compiles only its processor's: `OSIRIS_SETS=all sh native/build.sh` compiles all.
 */
export function instructionSet(isa: InstructionSet): Need {
  return {
    isMet: () => hasIsa(isa),
    get reason() {
      if (isCompiledFor(isa)) return `This processor has no ${isa}.`;
      return `The native kernels were compiled without ${isa} (OSIRIS_SETS=all compiles all sets).`;
    },
  };
}

/** Tests that do not run on every change: a cheaper test covers the promise on every change. */
export const testAll: Need = {
  isMet: () => isTestAll,
  reason: "`npm run test:all` runs these:",
};

/**
 * Whether the native kernels have an instruction set. Afterwards they use this processor's best
 * one.
 */
function hasIsa(isa: InstructionSet): boolean {
  const has = limitIsa(isa);
  resetIsa();
  return has;
}

/** Declares a test: `declare(title, run)`, or `declare.serial(title, run)`. */
export interface DeclareTest {
  (title: string, run: Implementation<[]>): void;
  serial(title: string, run: Implementation<[]>): void;
}

/**
 * Declares tests that have needs. If a need is not met, AVA skips the tests, and `npm test` lists
 * them with the reason; in CI they fail if the need is required.
 */
export function testIf(...needs: readonly Need[]): DeclareTest {
  const outcome = outcomeOf(needs, { isCi: process.env.CI === "true" });
  const declare =
    (run: SerialFn, skip: SkipFn) =>
    (title: string, body: Implementation<[]>): void => {
      if (outcome === "runs") {
        run(title, body);
      } else if ("fails" in outcome) {
        run(title, (t) => void t.fail(`${outcome.fails} CI has to run this test.`));
      } else {
        note({ kind: "skipped", title, reason: outcome.skipped });
        skip(title, body);
      }
    };
  const serial = declare(test.serial, test.serial.skip);
  return Object.assign(declare(test, test.skip), { serial });
}

/** The outcome of declaring a test with needs: it runs, is skipped, or fails. */
export function outcomeOf(
  needs: readonly Need[],
  { isCi }: { readonly isCi: boolean },
): "runs" | { readonly skipped: string } | { readonly fails: string } {
  const missing = needs.find((need) => !isMet(need));
  if (missing === undefined) return "runs";
  return missing.isRequired === true && isCi
    ? { fails: missing.reason }
    : { skipped: missing.reason };
}

/**
 * Whether a test leaves out a part because of an unmet need, which the runner notes. In CI the test
 * fails if the need is required.
 */
export function leavesOut(t: ExecutionContext, need: Need): boolean {
  if (isMet(need)) return false;
  if (need.isRequired === true && process.env.CI === "true") {
    t.fail(`${need.reason} CI has to run this test.`);
  } else {
    note({ kind: "some", cases: `${t.title}: a part is left out. ${need.reason}` });
  }
  return true;
}

/** Whether a need is met; cached, because some checks start a process. */
export function isMet(need: Need): boolean {
  const known = answers.get(need.isMet) ?? need.isMet();
  answers.set(need.isMet, known);
  return known;
}

const answers = new Map<Need["isMet"], boolean>();

/** The needs of a row store. */
export function storeNeeds(store: string): Need[] {
  return store === "rocksdb" ? [rocksDb] : [];
}
