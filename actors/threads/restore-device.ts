// Restores a device from a checkpoint: its bytes come from files, or from replicas in the memory of
// hosts.

import { ArithmeticMismatchError } from "../../src/errors/errors.ts";
import type { Cells } from "../../src/exchange/cells.ts";
import type { Disk } from "../../src/ports/disk.ts";
import { isObjectAddress } from "../../src/ports/object-store.ts";
import { partsNeeded, restorePart } from "../../src/training/checkpoint/parts.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import {
  createRestoreSource,
  type RestoreSource,
} from "../../storage/checkpoints/replicas/restore-source.ts";
import { openParts } from "../../storage/checkpoints/store/open-parts.ts";
import type { Generation } from "./generation-memory.ts";
import type { GenerationSpec } from "./generation-spec.ts";

/**
 * The source of the checkpoint's bytes; undefined without a checkpoint.
 * @throws PathNotSharedError where this host does not read the cluster's object store
 */
export function sourceOf(
  { spec: { manifest, job, generation }, layout, memory: { replicas: atHand } }: Generation,
  { disk, cells }: { readonly disk: Disk; readonly cells: Cells },
): RestoreSource | undefined {
  const { replicaCellBase: cellBase, bridge: peer } = layout;
  const { directory } = job.checkpoint;
  if (manifest === undefined && !isObjectAddress(directory)) return undefined;
  const store = openParts(directory, disk);
  store.checkSeen(generation);
  if (manifest === undefined) return undefined;
  return createRestoreSource({ store, manifest, atHand, cells, cellBase, peer });
}

/**
 * Restores the device's parts from the checkpoint; `kept`: shards whose rows are in place.
 * @throws ArithmeticMismatchError
 */
export async function restore(
  device: DeviceState,
  { manifest }: GenerationSpec,
  source: RestoreSource,
  kept: ReadonlySet<number>,
): Promise<void> {
  const { arithmetic } = device.kernels;
  if (manifest !== undefined && manifest.arithmetic !== arithmetic) {
    throw new ArithmeticMismatchError(manifest.arithmetic, arithmetic);
  }
  // In the order of their places, so that files are read front to back.
  const names = (manifest?.parts ?? [])
    .toSorted((a, b) => (a.file === b.file ? a.at - b.at : a.file < b.file ? -1 : 1))
    .map(({ name }) => name);
  try {
    for (const name of partsNeeded(device, names, kept)) {
      await restorePart(device, name, await source.files(name), kept);
    }
  } finally {
    source.close();
  }
}
