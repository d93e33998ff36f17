// The table of splits that readers need, without a master.

import test from "ava";
import { SplitTable } from "../../../../actors/threads/preprocessing/split-table.ts";
import { recordError } from "../../../../src/errors/errors.ts";

test("a worker's report about the lease of a former table changes no split of another worker", (t) => {
  const table = new SplitTable({
    deadlineMs: 2000,
    attemptsMax: 1,
    resendMs: 500,
    silenceMs: 1500,
  });
  const split = { stream: "training", first: 0, end: 1 } as const;
  table.want(0, [split], 0);
  t.is(table.lease("worker:1", 0)?.lease, 1);
  const error = recordError(new Error("a page is damaged"));
  t.is(table.done({ worker: "worker:0", lease: 1, samples: 0, error }, 10), undefined);
  t.is(table.done({ worker: "worker:0", lease: 1, samples: 32 }, 10), undefined);
  t.like(table.counts, { doing: 1, done: 0, failed: 0 });
  t.is(table.done({ worker: "worker:1", lease: 1, samples: 32 }, 20), undefined);
  t.like(table.counts, { doing: 0, done: 1, samples: 32 });
});
