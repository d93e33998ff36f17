// Computes a checkpoint's digest from its parts on disk: from the rows and the dense network
// themselves, not from the manifest's claim about them.

import { createHash } from "node:crypto";
import { dynamicDigest, idLeavesOfPart } from "../../src/embedding/checkpoint/ids-part.ts";
import { leavesOf, tableDigest } from "../../src/embedding/rows/digest.ts";
import { rowStateOf, rowStateWidth } from "../../src/embedding/tables/row-state.ts";
import { extentOf } from "../../src/embedding/tables/shards.ts";
import {
  densePart,
  digestOf,
  idsOfPart,
  tableOfPart,
} from "../../src/training/checkpoint/part-names.ts";
import { denseHeaderBytes } from "../../src/training/checkpoint/parts.ts";
import { tableOf } from "../../src/training/topology/topology.ts";
import type { Progress } from "../disk/progress.ts";
import type { OpenCheckpoint } from "./open-checkpoint.ts";
import { partsOfTable } from "./store/part-index.ts";
import { rowsOfPart } from "./table-rows.ts";

/**
 * Hex SHA-256 of the model, comparable to `Manifest.modelDigest`. @throws CheckpointCorruptError
 */
export async function digestOfParts(
  checkpoint: OpenCheckpoint,
  progress: Progress,
): Promise<string> {
  const leaves = await leavesOfParts(checkpoint, progress);
  return digestOf(leaves, checkpoint.job.model.tables, checkpoint.store.statedDigests);
}

/**
 * Hex SHA-256 by name: of the dense network, of each table's rows, and of its dynamic ids if it has
 * any. The digests do not depend on how tables were sharded. @throws CheckpointCorruptError
 */
export async function digestsByName(
  checkpoint: OpenCheckpoint,
  progress: Progress,
): Promise<Map<string, string>> {
  const { tables } = checkpoint.job.model;
  const leaves = await leavesOfParts(checkpoint, progress);
  const leavesOf = (name: string) => leaves.get(name) ?? [];
  const digests = new Map([["dense network", leavesOf(densePart)[0] ?? ""]]);
  for (const [index, { name, dynamic }] of tables.entries()) {
    const parts = partsOfTable(checkpoint.manifest, tables, index);
    const shards = parts.tiles.map(({ tile, part }) => {
      return { ...tile, leaves: leavesOf(part.name) };
    });
    digests.set(`table ${name}`, tableDigest(shards));
    if (dynamic === undefined) continue;
    const ids = parts.ids.map((name) => {
      return { first: idsOfPart(name, tables)?.firstBlock ?? 0, own: leavesOf(name) };
    });
    const inOrder = ids.sort((a, b) => a.first - b.first).flatMap(({ own }) => own);
    digests.set(`ids of table ${name}`, dynamicDigest("", inOrder));
  }
  return digests;
}

async function leavesOfParts(
  checkpoint: OpenCheckpoint,
  progress: Progress,
): Promise<Map<string, readonly string[]>> {
  const leaves = new Map<string, readonly string[]>();
  for (const { name } of checkpoint.manifest.parts) {
    leaves.set(name, await leavesOfPart(checkpoint, name, progress));
  }
  return leaves;
}

/**
 * The leaves of one part, equal to the leaves that its device reported
 * (src/training/checkpoint/parts.ts).
 */
export async function leavesOfPart(
  checkpoint: OpenCheckpoint,
  name: string,
  progress: Progress,
): Promise<string[]> {
  const { store, job, manifest } = checkpoint;
  const { tables } = job.model;
  if (name === densePart) return [await leafOfDense(store.readPart(manifest, name), progress)];
  if (idsOfPart(name, tables) !== undefined) {
    return idLeavesOfPart(progress.count(store.readPart(manifest, name)), name);
  }
  const part = tableOfPart(name, tables);
  if (part === undefined) return [];
  const spec = tableOf(tables, part.table);
  const { columns } = extentOf(spec, part);
  const { sparse } = job.optimizer;
  const width = rowStateWidth(sparse, columns);
  const records = rowsOfPart(checkpoint, { name, dim: columns, width }, progress);
  return leavesOf({ ...part, columns }, spec, rowStateOf(sparse), withProgress(records, progress));
}

/** The leaf hash of the dense part: over all its tensors, without the header. */
async function leafOfDense(pieces: Iterable<Uint8Array>, progress: Progress): Promise<string> {
  const hash = createHash("sha256");
  let header = denseHeaderBytes;
  for (const piece of progress.count(pieces)) {
    hash.update(piece.subarray(header));
    header -= Math.min(header, piece.length);
    await progress.breathe();
  }
  return hash.digest("hex");
}

async function* withProgress<T>(
  items: Iterable<T>,
  progress: Progress,
): AsyncGenerator<T, void, undefined> {
  for (const item of items) {
    await progress.breathe();
    yield item;
  }
}
