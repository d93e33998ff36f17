// Partial recovery (CPR, Maeng et al., MLSys 2021) after a generation lost devices. The other
// devices keep their rows; only the lost devices' rows go back to the last checkpoint. The result
// is a checkpoint like any other, except that its rows are of different steps:
//
//   dense                        copied from the first surviving device, the only one that saves it
//   parts of surviving devices   an empty increment, based on the device's surviving state
//   parts of lost devices        an empty increment, based on the last checkpoint's files
//   residuals (exchange.topk)    copied from surviving devices; those of lost devices are left out,
//                                and become 0: the last checkpoint's were mostly sent since
//
// Portion of lost samples: PLS += (S_now - S_checkpoint) / (S_total N), for each of N devices lost.

import { encodeRows } from "../../src/embedding/checkpoint/rows-part.ts";
import { rowStateWidth } from "../../src/embedding/tables/row-state.ts";
import { extentOf } from "../../src/embedding/tables/shards.ts";
import type { JobSpec } from "../../src/job/job.ts";
import type { Disk } from "../../src/ports/disk.ts";
import {
  densePart,
  digestOf,
  missingParts,
  residualsOfPart,
  tableOfPart,
} from "../../src/training/checkpoint/part-names.ts";
import { tableOf } from "../../src/training/topology/topology.ts";
import { openEach } from "../disk/held-files.ts";
import { progressOf } from "../disk/progress.ts";
import { leavesOfPart } from "./part-digest.ts";
import type {
  BasePart,
  CheckpointStore,
  Manifest,
  PackWriter,
  PartRecord,
} from "./store/checkpoint-store.ts";
import { partPlaceOf } from "./store/open-parts.ts";
import { streamPlace } from "./store/part-files.ts";
import type { SavedPart } from "./store/part-writer.ts";
import { survivingCut } from "./surviving-cut.ts";

/** The total loss of a run in all of its partial recoveries. */
export interface Lost {
  readonly recoveries: number;
  /** Rows of the shards that were rolled back. Usually most of them had not changed. */
  readonly rows: number;
  /** Samples whose updates of these rows are lost. */
  readonly samples: number;
  /** Portion of lost samples. */
  readonly pls: number;
}

export const nothingLost: Lost = { recoveries: 0, rows: 0, samples: 0, pls: 0 };

/** The surviving state of one device. */
export interface SurvivingState {
  readonly step: number;
  readonly parts: readonly SavedPart[];
}

/**
 * Steps between two checkpoints at which the expected portion of lost samples is `pls`: T_save = 2
 * PLS N T_fail.
 */
export function stepsForPls(pls: number, devices: number, stepsBetweenFailures: number): number {
  return Math.max(1, Math.floor(2 * pls * devices * stepsBetweenFailures));
}

export interface PartialOptions {
  readonly store: CheckpointStore;
  readonly disk: Disk;
  readonly job: JobSpec;
  readonly run: string;
  readonly generation: number;
  /** Steps of the whole run. */
  readonly steps: number;
  /** Devices of the generation. */
  readonly devices: number;
  /** State of each surviving device, ordered by rank. */
  readonly surviving: readonly SurvivingState[];
  readonly createdBy: string;
}

/**
 * Commits the surviving state as a checkpoint. Undefined: the surviving and the last checkpoint's
 * parts do not make a whole model, or the state is not newer than the last checkpoint. @throws
 * StoreFailedError, GenerationFencedError, CheckpointCorruptError
 */
export async function commitPartial(
  options: PartialOptions,
): Promise<{ readonly manifest: Manifest; readonly lost: Lost } | undefined> {
  const { store, job, run, generation, steps, devices, surviving, createdBy } = options;
  const { tables } = job.model;
  const latest = store.latest();
  // Devices may differ by one step; those ahead repeat that step.
  const cut = Math.min(...surviving.map(({ step }) => step));
  if (latest === undefined || cut <= latest.cut) return undefined;
  const left = new Map(
    surviving.flatMap(({ step, parts }) => parts.map((part) => [part.name, { step, part }])),
  );
  const isLost = (name: string) => !left.has(name) && residualsOfPart(name) === undefined;
  const lostParts = latest.parts.filter(({ name }) => isLost(name));
  const names = [...left.keys(), ...lostParts.map(({ name }) => name)];
  if (!left.has(densePart) || missingParts(names, tables).length > 0) return undefined;

  const leaves = new Map<string, readonly string[]>();
  const parts: PartRecord[] = [];
  const writer = store.packWriter(generation, cut, "partial");
  for (const [name, { step, part }] of left) {
    leaves.set(name, part.leaves);
    const { file, at, bytes, sha256 } = part;
    const base = { cut: survivingCut(steps, step), generation, file, at, bytes, sha256 };
    const isWhole = name === densePart || residualsOfPart(name) !== undefined;
    if (isWhole) parts.push(copyPart(options, writer, name, base));
    else parts.push(await restOn(options, writer, name, [base]));
  }
  for (const part of lostParts) {
    const { name, file, at, bytes, sha256, base } = part;
    leaves.set(name, await leavesOfPart({ store, job, manifest: latest }, name, progressOf({})));
    const own = { cut: latest.cut, generation: latest.generation, file, at, bytes, sha256 };
    parts.push(await restOn(options, writer, name, [...base, own]));
  }
  writer.finish();
  const metrics = (latest.metrics ?? {}) as { readonly lost?: Lost }; // An import has none.
  const lostDevices = devices - surviving.length;
  const lost = {
    recoveries: 1,
    rows: lostParts.reduce((sum, { name }) => sum + rowsOf(name, job), 0),
    samples: lostDevices === 0 ? 0 : (cut - latest.cut) * job.data.batchSize,
    pls: ((cut - latest.cut) / steps) * (lostDevices / devices),
  };
  const manifest = store.commit({
    ...{ run, generation, cut, parts, createdBy },
    modelDigest: digestOf(leaves, tables),
    arithmetic: latest.arithmetic,
    ...(latest.sets && { sets: latest.sets }),
    metrics: { ...metrics, isBest: false, lost: addLost(metrics.lost ?? nothingLost, lost) },
    position: { step: cut },
    means: latest.means,
    best: false,
    restored: "partial",
  });
  return { manifest, lost };
}

export function addLost(a: Lost, b: Lost): Lost {
  return {
    recoveries: a.recoveries + b.recoveries,
    rows: a.rows + b.rows,
    samples: a.samples + b.samples,
    pls: a.pls + b.pls,
  };
}

/** Writes an empty increment on this base. */
async function restOn(
  { job }: PartialOptions,
  writer: PackWriter,
  name: string,
  base: readonly BasePart[],
): Promise<PartRecord> {
  const part = tableOfPart(name, job.model.tables);
  if (part === undefined) throw new RangeError(`${name} is no part of a table`);
  const spec = tableOf(job.model.tables, part.table);
  const { columns } = extentOf(spec, part);
  const width = rowStateWidth(job.optimizer.sparse, columns);
  writer.begin(name);
  for await (const bytes of encodeRows(columns, width, [], spec.precision)) writer.write(bytes);
  return { ...writer.end(), base };
}

/** Copies a part that is never an increment. */
function copyPart(
  { store, disk }: PartialOptions,
  writer: PackWriter,
  name: string,
  from: BasePart,
): PartRecord {
  const place = partPlaceOf(store.directory, disk);
  const path = place.paths.file(from.cut, from.generation, from.file);
  writer.begin(name);
  const pieces = streamPlace({ ...from, name }, path, openEach(place));
  for (const piece of pieces) writer.write(piece);
  return writer.end();
}

function rowsOf(name: string, { model }: JobSpec): number {
  const part = tableOfPart(name, model.tables);
  if (part === undefined) return 0;
  return extentOf(tableOf(model.tables, part.table), part).rows;
}
