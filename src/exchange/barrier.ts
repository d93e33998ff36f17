// The barrier of one device. Between hosts only cells are sent, without bytes.
//
//   arrived[rank]   number of barriers that `rank` has reached

import { type Cells, waitForEach } from "./cells.ts";
import type { SharedMemoryLayout } from "./layout.ts";
import type { Surroundings } from "./surroundings.ts";

export function createBarrier(options: {
  readonly rank: number;
  readonly cells: Cells;
  readonly layout: SharedMemoryLayout;
  readonly around: Surroundings;
}): () => Promise<void> {
  const { rank, cells, layout, around } = options;
  const { arrived } = layout;
  let round = 0;
  return async () => {
    round++;
    cells.store(arrived(rank), round, around.everybody);
    const wait = (peer: number) => `device ${peer} to come to the barrier`;
    await waitForEach(cells, around.peers, arrived, round, wait);
  };
}
