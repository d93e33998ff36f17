// Verifies a model file (storage/checkpoints/store/model-file.ts) without its checkpoint: reads
// every byte, hashes every row, and follows the hashes up to the digest of the run.
//
//   rows ─▶ table ─┐
//   dense network ─┼─▶ the model's digest ─▶ the manifest ─▶ its hash, which the run's result names
//   dynamic ids ───┘
//
// If a table lacks the optimizer's state per element, its rows are checked against a separate hash,
// which the export computed in the same pass in which it checked the whole rows against the digest.

import {
  CheckpointCorruptError,
  denseHeaderBytes,
  densePart,
  dynamicDigest,
  hashOf,
  idLeavesOfPart,
  idsOfPart,
  modelDigest,
  modelFileAt,
  type OpenCheckpoint,
  openCheckpoint,
  type Progress,
  type ProgressOptions,
  progressOf,
  realDisk,
  rowsOfTable,
  type StoredTable,
  storedTables,
  type TableProof,
  wholeTable,
} from "../../../internal.ts";
import { createTotal, withoutElementState } from "./osiris-model.ts";

/** The result of `verifyModelFile`. */
export interface ModelFileProof {
  readonly file: string;
  /** Bytes of its parts. */
  readonly bytes: number;
  /** Step number of the checkpoint, and the generation that wrote it. */
  readonly cut: number;
  readonly generation: number;
  /** Hash of the checkpoint's manifest, as the run's result names it. */
  readonly manifest: string;
  /** The model's digest, as the run's result names it: `sha256:…`. */
  readonly digest: string;
  /** Parts of the model whose bytes in the file were proven to lead to the digest. */
  readonly proven: readonly string[];
  /** Tables without their full state, whose rows match the hash that the export computed. */
  readonly stated: readonly string[];
  /** For checkpoints in fewer bits than the model: the digest of the weights as stored. */
  readonly storedDigest: string | undefined;
}

/**
 * Verifies a model file, without the checkpoint from which it was exported.
 * @throws CheckpointCorruptError naming the damaged part; InputUnusableError
 */
export async function verifyModelFile(
  path: string,
  options: ProgressOptions = {},
): Promise<ModelFileProof> {
  const { disk = realDisk } = options;
  const file = modelFileAt(path, disk);
  const checkpoint = openCheckpoint(path, undefined, disk);
  const { store, job, manifest } = checkpoint;
  const progress = progressOf(options);
  const bytes = file.parts.reduce((sum, one) => sum + one.bytes, 0);
  progress.expect(bytes);
  const proven = ["dense network"];
  const stated: string[] = [];
  const digests: string[] = [];
  for (const stored of storedTables(checkpoint)) {
    const { table, spec } = stored;
    const proof = file.proof.tables[table];
    if (proof === undefined) throw new CheckpointCorruptError(path, `it lacks table ${spec.name}`);
    await checkTable(checkpoint, stored, proof, progress);
    (proof.leftOut === 0 ? proven : stated).push(`table ${spec.name}`);
    const part = manifest.parts.find(
      ({ name }) => idsOfPart(name, job.model.tables)?.table === table,
    );
    const ids = part && idLeavesOfPart(store.readWholePart(manifest, part.name), part.name);
    if (ids !== undefined) proven.push(`ids of table ${spec.name}`);
    digests.push(ids === undefined ? proof.digest : dynamicDigest(proof.digest, ids));
  }
  const dense = store.readWholePart(manifest, densePart);
  const found = modelDigest(hashOf(dense.subarray(denseHeaderBytes)), digests);
  isHeldTo(path, "its parts together", found, file.proof.digest);
  const isExact = job.checkpoint.bits === 32;
  if (isExact) isHeldTo(path, "its parts together", found, manifest.modelDigest);
  const { cut, generation, sha256, modelDigest: digest } = manifest;
  return {
    ...{ file: path, bytes, cut, generation, manifest: sha256, digest: `sha256:${digest}` },
    ...{ proven, stated, storedDigest: isExact ? undefined : `sha256:${found}` },
  };
}

/** Checks the rows of a table against the hashes in the proof. */
async function checkTable(
  checkpoint: OpenCheckpoint,
  stored: StoredTable,
  proof: TableProof,
  progress: Progress,
): Promise<void> {
  const { spec, state } = stored;
  const isWhole = proof.leftOut === 0;
  const tile = wholeTable(stored.table, checkpoint.job.model.tables);
  const shape = isWhole ? state : { perElement: 0, perRow: state.perRow };
  const total = createTotal(tile, spec, shape);
  let rows = 0;
  for await (const chunk of rowsOfTable(checkpoint, stored, progress)) {
    rows += chunk.rows.length;
    total.add(isWhole ? chunk : withoutElementState(chunk, spec.dim, state));
  }
  const { directory } = checkpoint.store;
  const what = `table ${spec.name}`;
  isHeldTo(directory, what, total.digest(), proof.stored);
  if (isWhole) isHeldTo(directory, what, proof.stored, proof.digest);
  isHeldTo(directory, `the number of rows of ${what}`, String(rows), String(proof.rows));
}

function isHeldTo(path: string, what: string, found: string, expected: string): void {
  if (found === expected) return;
  throw new CheckpointCorruptError(path, `${what}: found ${found}, expected ${expected}`);
}
