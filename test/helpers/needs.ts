// What a test needs that a machine may lack: a nats-server, the golden files, the native kernels. A
// test that lacks one of them says so with `lacks` and ends; `npm test` lists such tests and the
// reasons at its end. Where CI has the shared files, the needs that CI can meet are required.

import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { resolve } from "node:path";
import type { ExecutionContext } from "ava";
import { createNative, limitIsa } from "../../src/kernels/native/native.ts";
import { note } from "../runner/notes.ts";
import { hasNatsServer } from "./nats/nats.ts";
import { hasNamespaces } from "./nats/network-namespaces.ts";

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

/** A file of ../shared: golden trainings, which CI must have, and real data, which it may lack. */
export function sharedFile(file: string): Need {
  return {
    isMet: () => existsSync(resolve("../shared", file)),
    reason: `../shared/${file} is not here.`,
    isRequired: file.startsWith("golden/"),
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

/** Whether the test lacks a need. If so the test is noted as skipped and has to return. */
export function lacks(t: ExecutionContext, ...needs: readonly Need[]): boolean {
  const missing = needs.find((need) => !need.isMet());
  if (missing === undefined) return false;
  if (missing.isRequired && process.env.CI === "true" && existsSync("../shared")) {
    t.fail(`${missing.reason} CI has to run this test.`);
    return true;
  }
  noteSkipped(t, missing.reason);
  t.pass();
  return true;
}

/** Notes that the rest of a test was left out, and why. */
export function noteSkipped(t: ExecutionContext, reason: string): void {
  t.log(`skipped: ${reason}`);
  note({ kind: "skipped", title: t.title, reason });
}
