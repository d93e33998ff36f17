// A placement policy as a safetensors file: the weights of its networks, the mean and deviation by
// which table features are standardised (`standard.mean`, `standard.deviation`), and its provenance
// in the metadata.

import { z } from "zod";
import { type Disk, type InputUnusableError, realDisk } from "../../../internal.ts";
import { type PlacementPolicy, policyMethods, policyShapes } from "../policies/placement-policy.ts";
import { policyFeatures } from "../policies/table-pool.ts";
import {
  type FloatTensor,
  type Provenance,
  readFloats,
  unusableFile,
  writeFloats,
} from "./float-tensors.ts";

/** Value of the metadata field `kind`, by which the file is recognised. */
const kind = "osiris placement policy 1";

/** Writes the file. Equal policies with equal provenance give equal bytes. */
export async function writePolicy(
  path: string,
  { method, standard, hasCosts, weights }: PlacementPolicy,
  provenance: Provenance,
  disk: Disk = realDisk,
): Promise<void> {
  const line = (name: "mean" | "deviation"): FloatTensor => {
    const values = Float32Array.from(standard[name]);
    return { name: `standard.${name}`, shape: [values.length], values };
  };
  const notes = { ...provenance, kind, method, hasCosts: String(hasCosts) };
  await writeFloats(path, [line("mean"), line("deviation"), ...weights], notes, disk);
}

/** A policy read from a file, and its provenance. */
export interface ReadPolicy {
  readonly policy: PlacementPolicy;
  readonly provenance: Provenance;
}

const notesSchema = z.object({
  kind: z.literal(kind),
  method: z.enum(policyMethods),
  hasCosts: z.enum(["true", "false"]),
});

/**
 * Reads the file of a policy.
 * @throws InputUnusableError where the file has no policy, or cannot be read
 */
export function readPolicy(path: string, disk: Disk = realDisk): ReadPolicy {
  const { notes, tensors } = readFloats(path, disk);
  const parsed = notesSchema.safeParse(notes);
  if (!parsed.success)
    throw unusable(path, `its metadata lack \`kind: ${kind}\`, or a known method`);
  const found = (name: string, shape: readonly number[]): FloatTensor => {
    const tensor = tensors.get(name);
    if (tensor !== undefined && tensor.shape.join() === shape.join()) return tensor;
    throw unusable(path, `it has no float32 tensor \`${name}\` of shape (${shape.join(",")})`);
  };
  const { method, hasCosts } = parsed.data;
  const { kind: _kind, method: _method, hasCosts: _hasCosts, ...provenance } = notes;
  const policy: PlacementPolicy = {
    method,
    hasCosts: hasCosts === "true",
    standard: {
      mean: [...found("standard.mean", [policyFeatures]).values],
      deviation: [...found("standard.deviation", [policyFeatures]).values],
    },
    weights: policyShapes(method).map(({ name, shape }) => found(name, shape)),
  };
  return { policy, provenance };
}

function unusable(path: string, why: string): InputUnusableError {
  const command = "osiris plan --calibrate --learn --policy FILE";
  return unusableFile(path, why, { content: "a placement policy", command });
}
