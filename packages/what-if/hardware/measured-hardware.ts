// The hardware file of this machine, from its measured constants. The file says of each figure
// whether it is measured; the links between hosts cannot be measured on one of them.

import { closeSync, fsyncSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { join } from "node:path";
import { stringify } from "yaml";
import type { Clock, MachineConstants } from "../../../internal.ts";
import type { TaskCosts } from "../tasks/task-costs.ts";
import type { Hardware } from "./hardware.ts";

/** The parts of a machine, without their speeds. */
export interface MachineParts {
  readonly cores: number;
  readonly memoryBytes: number;
  readonly disk: NonNullable<Hardware["host"]["disk"]>;
}

/** Devices that measure the memory's bandwidth in parallel (actors/calibration). */
const measuring = 2;

/**
 * The text of a hardware file of this machine. `constants` were measured with all devices of the
 * machine at work, and their memory is that of all devices together.
 */
export function measuredHardware(
  constants: MachineConstants,
  tasks: readonly TaskCosts[],
  parts: MachineParts,
): string {
  const { cores, disk } = parts;
  const together = Math.min(measuring, cores);
  const { memoryBandwidth: lookups, memoryBytes, denseFlops } = constants;
  const lines = (value: object) =>
    stringify(value, { lineWidth: 96 }).trimEnd().replaceAll("\n", "\n  ");
  return `# This machine, by \`osiris calibrate --machine\`. What has no comment was measured.
name: this-machine
source: ${JSON.stringify(constants.source)}
fitted:
  - "constants.steps: to whole steps of the calibration's own jobs"
  - "tasks: to the tasks of other jobs of the calibration"
host:
  devices: ${cores} # a device for each core
  memory: # bandwidth: that of lookups on ${together} devices together
    { bytes: ${parts.memoryBytes}, bandwidth: ${together * lookups} }
  disk: { bytes: ${disk.bytes}, bandwidth: ${disk.bandwidth} } # free bytes; written and synced
  cores: ${cores}
  ingestion: ${disk.bandwidth} # derived: samples come from the disk
  # watts, pricePerHour, mtbfHours: yours, for figures of energy, cost and failures
device:
  memory: { bytes: ${Math.floor(memoryBytes / cores)}, bandwidth: ${lookups}, lookups: ${lookups} }
  flops: { float32: ${denseFlops} } # what products reach, so that \`gemmShare\` is 1
  gemmShare: 1
  idSort: 0 # a part of \`constants.rows\`
  hostLink: ${lookups} # The devices' memory is the host's.
scaleOut: { latency: 200us, bandwidth: 1Gb/s, isShared: true } # assumed: put in your network
constants:
  ${lines(constants)}
tasks:
  ${lines(tasks)}
`;
}

/** Bytes that the measurement of a disk writes. */
const diskProbeBytes = 2 ** 26;
const chunkBytes = 2 ** 22;

/** The disk of a directory: its free bytes, and the bytes per second that it takes and syncs. */
export function measureDisk(directory: string, clock: Clock): MachineParts["disk"] {
  const path = join(directory, `.osiris-disk-${process.pid}`);
  const chunk = Buffer.alloc(chunkBytes, 7);
  const file = openSync(path, "wx");
  try {
    const fromMs = clock.now();
    for (let bytes = 0; bytes < diskProbeBytes; bytes += chunkBytes) writeSync(file, chunk);
    fsyncSync(file);
    const seconds = Math.max(1e-3, (clock.now() - fromMs) / 1000);
    const { bavail, bsize } = statfsSync(directory);
    return { bytes: bavail * bsize, bandwidth: Math.round(diskProbeBytes / seconds) };
  } finally {
    closeSync(file);
    rmSync(path);
  }
}
