// AutoShard's tasks (Zha et al., KDD 2022, section 4.1), drawn from the published tables: 80 tables
// of 16 or 32 columns in float16 on 8 devices. The paper draws the tasks of training and test from
// all tables (gen_dlrm_data.py of its repository, without `--transfer`). So does this file, which
// also draws tasks from the disjoint halves of DreamShard's tasks, for a policy that never saw a
// test's tables.

import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { dealt, type PlacementTask, type SizedTable } from "../../policies/table-pool.ts";
import { dreamTasks } from "./dream-tasks.ts";

const widths = [16, 32] as const;
const deviceBytes = 11 * 2 ** 30;
/** Number of tasks for training and test: from all tables, and from the two halves. */
const tasksOf = { train: 90, test: 50, trainHalf: 90, testHalf: 50 } as const;
const streamOf = { train: 6, test: 5, trainHalf: 3, testHalf: 4 } as const;
const drawSeed = 1;

/** Tables and devices of a task. */
export interface AutoSize {
  readonly tables: number;
  readonly devices: number;
}

/** The tables, each with both widths, and tasks of them; a task has each of its tables once. */
export function autoTasks(
  home: string,
  part: keyof typeof tasksOf,
  { tables: count, devices }: AutoSize,
): { readonly tables: readonly SizedTable[]; readonly tasks: readonly PlacementTask[] } {
  const narrow = [
    ...(part === "testHalf" ? [] : dreamTasks(home, 4, "train").tables),
    ...(part === "trainHalf" ? [] : dreamTasks(home, 4, "test").tables),
  ];
  const tables = widths.flatMap((dim) => {
    return narrow.map((table) => ({ ...table, dim, bytes: (table.bytes / table.dim) * dim }));
  });
  const random = new RandomStream(drawSeed, purposes.policyTasks, streamOf[part]);
  const tasks = Array.from({ length: tasksOf[part] }, (): PlacementTask => {
    // A task of more tables than there are has some with both widths.
    const isLarge = count > narrow.length;
    const own = isLarge
      ? dealt(tables.length, count, random)
      : dealt(narrow.length, count, random).map((i) => i + random.below(2) * narrow.length);
    return { tables: own, room: { devices, bytes: deviceBytes } };
  });
  return { tables, tasks };
}
