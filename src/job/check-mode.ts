// What `mode: "exact"` forbids: stale tables, checkpoints in fewer bits, and partial recovery.

import type { ModelSpec } from "../model/options.ts";
import { expected } from "../ports/check-options.ts";
import type { CheckpointSpec } from "../training/checkpoint/checkpoint-options.ts";

/** What of a job depends on its mode. */
interface JobOfMode {
  readonly mode: "exact" | "bounded";
  readonly model: ModelSpec;
  readonly checkpoint: CheckpointSpec;
}

/** @throws InvalidOptionError where a table of an exact job may be stale */
export function checkStaleness({ mode, model }: JobOfMode): void {
  const table = model.tables.findIndex(({ staleness }) => staleness > 0);
  if (mode === "bounded" || table < 0) return;
  throw expected(
    `model.tables[${table}].staleness`,
    '0 in an exact job, whose steps read what the one before wrote; set `mode: "bounded"` to allow it',
    model.tables[table]?.staleness,
  );
}

/** @throws InvalidOptionError where an exact job stores checkpoints in fewer bits than it has */
export function checkBits({ mode, checkpoint }: JobOfMode): void {
  if (mode === "bounded" || checkpoint.bits === 32) return;
  const why =
    '32 in an exact job, whose restores put back what was there; set `mode: "bounded"` to allow less';
  throw expected("checkpoint.bits", why, checkpoint.bits);
}

/** @throws InvalidOptionError where partial recovery is not allowed, or not possible */
export function checkPartial({ mode, checkpoint, model }: JobOfMode): void {
  const { partial } = checkpoint;
  if (partial === undefined) return;
  const refuse = (why: string) => expected("checkpoint.partial", `left out ${why}`, partial);
  if (mode !== "bounded") {
    throw refuse(
      'in an exact job, whose rows are all of one step; set `mode: "bounded"` to allow it',
    );
  }
  const other = model.tables.find(
    ({ tier, dynamic }) => tier === "cached" || dynamic !== undefined,
  );
  if (other !== undefined)
    throw refuse(`where a table (${other.name}) is cached, or has dynamic ids`);
  if ((partial.pls === undefined) !== (partial.failureSteps === undefined)) {
    throw expected("checkpoint.partial", "`pls` and `failureSteps`, or neither", partial);
  }
}
