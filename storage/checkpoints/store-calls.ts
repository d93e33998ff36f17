// The calls that a run's leader makes to its checkpoint store, as functions of plain data: the
// leader calls them itself, or sends them to a thread (actors/run/control/run-store.ts).

import type { JobSpec } from "../../src/job/job.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { adoptCheckpoint } from "./adopt-checkpoint.ts";
import { commitPartial, type PartialOptions } from "./partial-checkpoint.ts";
import type { CheckpointStore, CollectOptions, ManifestFields } from "./store/checkpoint-store.ts";
import { openStore, type StoreOptions } from "./store/open-store.ts";

/** The options that open the store of a run. */
export type OpenedStore = Pick<StoreOptions, "directory" | "jobIdentity" | "jobText">;

/** Opens the store at its first call. */
export function storeCalls(opened: OpenedStore, disk: Disk) {
  let found: CheckpointStore | undefined;
  const store = () => {
    found ??= openStore({ ...opened, disk });
    return found;
  };
  return {
    open: () => void store(),
    beginGeneration: (passOver: readonly string[]) => store().beginGeneration(undefined, passOver),
    adopt: (generation: number, job: JobSpec, arithmetic: string) =>
      adoptCheckpoint(store(), generation, job, arithmetic, disk),
    commit: (fields: ManifestFields) => store().commit(fields),
    commitPartial: (options: Omit<PartialOptions, "store" | "disk">) =>
      commitPartial({ ...options, store: store(), disk }),
    collect: (options: CollectOptions) => store().collect(options),
    latest: () => store().latest(),
    list: () => store().list(),
  };
}

export type StoreCalls = ReturnType<typeof storeCalls>;
