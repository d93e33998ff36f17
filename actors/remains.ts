// Remains: what a device still has when its generation has failed, for partial recovery (storage/
// partial-checkpoint.ts). It writes them itself: its writer is gone with the generation.

import type { Disk } from "../src/disk.ts";
import type { DeviceState } from "../src/training/device-state.ts";
import { remainsOf } from "../src/training/parts.ts";
import { openParts } from "../storage/part-files.ts";
import { remainsCut } from "../storage/remains-cut.ts";
import { createSaving, type SavedPart } from "../storage/saving.ts";
import { type Assembly, derive } from "./assembly.ts";

/** Writes all that the device has, whole. `isFirst`: the dense network and copied tables too. */
export async function writeRemains(
  device: DeviceState,
  assembly: Assembly,
  { step, isFirst, disk }: { step: number; isFirst: boolean; disk: Disk },
): Promise<SavedPart[]> {
  const { generation, job } = assembly;
  const store = openParts(job.checkpoint.directory, disk);
  const saving = createSaving({ store, generation, differential: "none", manifest: undefined });
  const cut = remainsCut(derive(assembly).schedule.steps, step);
  const parts: SavedPart[] = [];
  for (const part of remainsOf(device, isFirst)) {
    const file = saving.begin(cut, part.name, true);
    for await (const bytes of part.bytes()) file.write(bytes);
    parts.push(file.finish(await part.leaves()));
  }
  return parts;
}
