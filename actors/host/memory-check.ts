// Checks that the rows of a generation fit into the memory of their host, before any of it is
// allocated. The operating system overcommits memory and kills processes later: without this check
// a run would be killed while training, and again after each restart.

import { totalmem } from "node:os";
import { MemoryExceededError } from "../../src/errors/errors.ts";
import { rowMemoryOf } from "../../src/training/topology/row-memory.ts";
import type { GenerationLayout } from "../threads/generation-layout.ts";
import type { GenerationSpec, HostPlace } from "../threads/generation-spec.ts";

/** The memory of this process in bytes: the machine's, or the limit of its container. */
export function memoryOfProcess(): number {
  const limit = process.constrainedMemory();
  return limit > 0 ? Math.min(limit, totalmem()) : totalmem();
}

/**
 * Refuses a generation whose rows alone exceed the memory of the host. Rows that no sample ever
 * reads count too, since they are not known before training.
 * @throws MemoryExceededError naming the largest tables
 */
export function checkMemory(
  { job }: GenerationSpec,
  { topology }: GenerationLayout,
  { host, first, count }: HostPlace,
  bytesMax: number = memoryOfProcess(),
): void {
  const ranks = Array.from({ length: count }, (_, i) => first + i);
  const tables = rowMemoryOf(topology, ranks, job.optimizer.sparse);
  const bytes = tables.reduce((sum, table) => sum + table.bytes, 0);
  if (bytes > bytesMax) throw new MemoryExceededError(`host:${host}`, bytes, bytesMax, tables);
}
