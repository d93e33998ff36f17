// What a test needs that a machine may lack: a nats-server, the native kernels, RocksDB, real data.
// A test that lacks one of them says so with `lacks` and ends, or leaves a part out; `npm test`
// lists such tests and the reasons at its end. In CI (CI=true) a test fails where it lacks what CI
// can have. The golden trainings are in the repository: a test without them fails anywhere.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { createRequire } from "node:module";
import { resolve } from "node:path";
import type { ExecutionContext } from "ava";
import { createNative, limitIsa } from "../../src/kernels/native/native.ts";
import { note } from "../runner/notes.ts";
import { hasNatsServer } from "./nats/nats.ts";
import { hasNamespaces } from "./nats/network-namespaces.ts";

/** Where real data lie, if anywhere. */
export const dataHome = "../shared/data";

export interface Need {
  readonly isMet: () => boolean;
  /** Why the test is skipped: a sentence. */
  readonly reason: string;
  /** Whether CI fails without it. */
  readonly isRequired: boolean;
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

/** Its package has binaries for linux-x64 and darwin-arm64. */
export const rocksDb: Need = {
  isMet: () => {
    try {
      createRequire(import.meta.url)("rocksdb");
      return true;
    } catch {
      return false;
    }
  },
  reason: "RocksDB has no binary for this platform, or was not installed.",
  isRequired: true,
};

export const networkNamespaces: Need = {
  isMet: hasNamespaces,
  reason: "This process may not make network namespaces (`ip netns add`).",
  isRequired: false,
};

export const linux: Need = {
  isMet: () => process.platform === "linux",
  reason: "This is not Linux: there are no /dev/full and no /proc.",
  isRequired: false,
};

export const natsPy: Need = {
  isMet: () => {
    try {
      execFileSync("python3", ["-c", "import nats.aio.client"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  },
  reason: "nats-py is not installed: a stand-in sends what nats-py would send.",
  isRequired: false,
};

export const curl: Need = {
  isMet: () => {
    try {
      execFileSync("curl", ["--version"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  },
  reason: "There is no curl on the PATH.",
  isRequired: false,
};

export const officialSafetensors: Need = {
  isMet: () => {
    try {
      execFileSync("python3", ["-c", "import numpy, safetensors"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  },
  reason: "Python's safetensors and numpy are not installed: the official reader reads no file.",
  isRequired: false,
};

/** A Python with PyTorch: the first on the PATH, or that of the system. */
export function pythonWithTorch(): string | undefined {
  return ["python3", "/usr/bin/python3"].find((python) => {
    try {
      execFileSync(python, ["-c", "import torch"], { stdio: "ignore" });
      return true;
    } catch {
      return false;
    }
  });
}

export const pyTorch: Need = {
  isMet: () => pythonWithTorch() !== undefined,
  reason: "PyTorch is not installed: the files that it wrote once stand for it.",
  isRequired: false,
};

/** A file of real data, whose terms forbid to have it in the repository: it may lie beside it. */
export function dataFile(file: string): Need {
  return {
    isMet: () => existsSync(resolve(dataHome, file)),
    reason: `${dataHome}/${file} is not here.`,
    isRequired: false,
  };
}

/** An instruction set. Where the processor has it, `isMet` limits the native kernels to it. */
export function instructionSet(isa: Parameters<typeof limitIsa>[0]): Need {
  return {
    isMet: () => limitIsa(isa),
    reason: `This processor has no ${isa}.`,
    isRequired: false,
  };
}

/**
 * Whether the test lacks a need. If so it is noted as skipped, and has to return or to leave out
 * the part that has the need; in CI it has failed if the need is required.
 */
export function lacks(t: ExecutionContext, ...needs: readonly Need[]): boolean {
  const missing = needs.find((need) => !need.isMet());
  if (missing === undefined) return false;
  if (missing.isRequired && process.env.CI === "true") {
    t.fail(`${missing.reason} CI has to run this test.`);
    return true;
  }
  noteSkipped(t, missing.reason);
  t.pass();
  return true;
}

/** Whether the test lacks a store of rows or runs, as `lacks` says. */
export function lacksStore(t: ExecutionContext, store: string): boolean {
  return store === "rocksdb" && lacks(t, rocksDb);
}

/** Notes that the rest of a test was left out, and why. */
export function noteSkipped(t: ExecutionContext, reason: string): void {
  t.log(`skipped: ${reason}`);
  note({ kind: "skipped", title: t.title, reason });
}
