// DreamShard's tasks (Zha et al., NeurIPS 2022, section 4.1), drawn from the published tables: some
// tables of 16 columns in float16 on 4 or 8 devices. Training and test draw from disjoint halves of
// the tables, so that a policy saw no table of a test.

import { purposes, RandomStream } from "../../../../src/ports/random.ts";
import { dealt, type PlacementTask, type SizedTable } from "../../policies/table-pool.ts";
import { publishedTables } from "../published.ts";

/** Tables of a task, by devices: DLRM-20 to DLRM-100, and twice as many. */
export const dreamSizes = {
  4: [20, 40, 60, 80, 100],
  8: [40, 80, 120, 160, 200],
} as const;

export type DreamDevices = keyof typeof dreamSizes;

/** Tasks of each size, for training and for test. */
const tasksOfSize = { train: 50, test: 50 } as const;

const columns = 16;
/** Bytes of a float16. */
const weightBytes = 2;
/** Memory of the 2080 Ti of the paper. */
const deviceBytes = 11 * 2 ** 30;

/** The seed of the halves and tasks: policies of any seed are tested on the same tasks. */
const drawSeed = 1;

export interface DreamTasks {
  readonly tables: readonly SizedTable[];
  readonly tasks: readonly PlacementTask[];
}

/** The half of the tables for training or for test, and its tasks in order of size. */
export function dreamTasks(
  home: string,
  devices: DreamDevices,
  part: keyof typeof tasksOfSize,
): DreamTasks {
  const all = publishedTables(home).map((table): SizedTable => {
    return { ...table, dim: columns, bytes: table.rows * columns * weightBytes };
  });
  const order = dealt(all.length, all.length, new RandomStream(drawSeed, purposes.policyTasks));
  const half = Math.floor(all.length / 2);
  const own = part === "train" ? order.slice(0, half) : order.slice(half);
  const random = new RandomStream(drawSeed, purposes.policyTasks, part === "train" ? 1 : 2);
  const tasks = dreamSizes[devices].flatMap((count) => {
    return Array.from({ length: tasksOfSize[part] }, () => {
      return { tables: dealt(own.length, count, random), room: { devices, bytes: deviceBytes } };
    });
  });
  return { tables: own.map((index) => all[index] as SizedTable), tasks };
}
