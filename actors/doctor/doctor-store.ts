// The doctor's trial of an object store: whether it keeps what checkpoints need, and its speed.

import { TrainingError } from "../../src/errors/errors.ts";
import { openObjectStore } from "../../src/objects/open-object-store.ts";
import { probeStore } from "../../src/objects/probe.ts";
import { type Check, check } from "./doctor-checks.ts";

const advices = {
  ok: undefined,
  warn: "damaged bytes are found when a checkpoint is read, not when it is written: use TLS",
  fail:
    "checkpoints in it are refused (STORE_UNFENCED): use a store that keeps `If-None-Match: *`, " +
    "as Amazon S3, Ceph RGW and versitygw do",
} as const;

/** Tries a store anew: writes objects below the address, and removes them. */
export async function storeChecks(address: string): Promise<Check[]> {
  try {
    const store = await openObjectStore(address);
    try {
      const { endpoint, findings } = await probeStore(store);
      return [
        check("store", "ok", `${address} at ${endpoint}; the verdict is kept in store.json`),
        ...findings.map(({ name, state, found }) =>
          check(`store: ${name}`, state, found, advices[state]),
        ),
      ];
    } finally {
      await store.close();
    }
  } catch (error) {
    if (!(error instanceof TrainingError)) throw error;
    const advice = "check the address, AWS_ENDPOINT_URL and the credentials (docs/data.md)";
    return [check("store", "fail", error.message, advice)];
  }
}
