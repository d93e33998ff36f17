// Surviving state: the state that a device still holds when its generation has failed, for partial
// recovery (storage/checkpoints/partial-checkpoint.ts). The device writes it itself, because its
// writer has ended by then.

import type { Disk } from "../../src/ports/disk.ts";
import { survivingParts } from "../../src/training/checkpoint/parts.ts";
import type { DeviceState } from "../../src/training/step/device-state.ts";
import { openParts } from "../../storage/checkpoints/store/open-parts.ts";
import { createSaving, type SavedPart } from "../../storage/checkpoints/store/part-writer.ts";
import { survivingCut } from "../../storage/checkpoints/surviving-cut.ts";
import type { Generation } from "./generation-memory.ts";

/**
 * Writes all parts of the device, whole. `isFirst`: the dense network and replicated tables
 * too.
 */
export async function writeSurvivingState(
  device: DeviceState,
  { spec, layout }: Generation,
  { step, isFirst, disk }: { step: number; isFirst: boolean; disk: Disk },
): Promise<SavedPart[]> {
  const { generation, job } = spec;
  const store = openParts(job.checkpoint.directory, disk);
  const about = { generation, owner: `d${device.rank}`, manifest: undefined };
  const saving = createSaving({ ...about, store, differential: "none" });
  const cut = survivingCut(layout.schedule.steps, step);
  for (const part of survivingParts(device, isFirst)) {
    saving.begin(cut, part.name, true);
    for await (const bytes of part.bytes()) saving.write(bytes);
    saving.end(await part.leaves());
  }
  return saving.finish();
}
