// The deadlines in which a host makes, reads or writes its share of the tables. Each is a number of
// step deadlines (src/ports/deadlines.ts), plus the least time for its bytes: with a fixed time,
// each attempt of a run with larger tables would fail. A hanging host is detected earlier, by its
// missing heartbeats.

import type { JobSpec } from "../../../src/job/job.ts";
import { type Deadlines, deadlinesOf, transferMs } from "../../../src/ports/deadlines.ts";
import { recordsOf } from "../../../src/training/topology/private-memory.ts";
import type { Manifest } from "../../../storage/checkpoints/store/checkpoint-store.ts";

export interface Transfer {
  readonly job: Pick<JobSpec, "model" | "optimizer" | "stepDeadlineMs">;
  readonly hosts: readonly unknown[];
  /** The newest checkpoint, if there is one. */
  readonly latest: Manifest | undefined;
}

export function transferDeadlines({
  job,
  hosts,
  latest,
}: Transfer): Pick<Deadlines, "assembly" | "cut" | "taken" | "saved"> {
  const { assembly, cut, taken, saved } = deadlinesOf(job);
  const inMemory = job.model.tables.filter(({ tier }) => tier === "memory");
  const { bytes } = recordsOf(inMemory, job.optimizer.sparse);
  const ms = transferMs(Math.max(bytes, bytesOf(latest)) / hosts.length);
  return { assembly: assembly + ms, cut: cut + 2 * ms, taken: taken + ms, saved: saved + ms };
}

/** Bytes of all files of a checkpoint. */
function bytesOf(manifest: Manifest | undefined): number {
  const files = (manifest?.parts ?? []).flatMap((part) => [part, ...part.base]);
  return files.reduce((sum, { bytes }) => sum + bytes, 0);
}
