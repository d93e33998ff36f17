// Deadlines of a host's share of the tables grow with its bytes.

import test from "ava";
import { transferDeadlines } from "../../../../actors/run/control/transfer-deadlines.ts";
import { resolveJob } from "../../../../src/job/job.ts";
import { deadlinesOf } from "../../../../src/ports/deadlines.ts";
import type { Manifest } from "../../../../storage/checkpoints/store/checkpoint-store.ts";

function jobOf(table: object) {
  return resolveJob({
    model: { kind: "dlrm", tables: [{ name: "a", rows: 2e9, dim: 100, ...table }], top: [1] },
    data: { kind: "synthetic", samples: 100, dense: 0, batchSize: 16 },
    optimizer: { sparse: { kind: "sgd" } },
  });
}

test("hosts get the time that their share of the tables takes at 20 MB a second", (t) => {
  const job = jobOf({});
  const of = (hosts: number, latest?: Manifest) => {
    return transferDeadlines({ job, hosts: Array.from({ length: hosts }), latest });
  };
  const { assembly, taken, saved, cut } = deadlinesOf(job);
  const shareMs = (1000 * 2e9 * 400) / 20 / 20e6;
  t.deepEqual(of(20), {
    assembly: assembly + shareMs,
    taken: taken + shareMs,
    saved: saved + shareMs,
    cut: cut + 2 * shareMs,
  });
  t.true(of(1).taken > of(20).taken);
  const latest = { parts: [{ bytes: 9e11, base: [{ bytes: 1e11 }] }] } as unknown as Manifest;
  t.is(of(20, latest).saved, saved + (1000 * 1e12) / 20 / 20e6, "the larger checkpoint counts");
  const cached = transferDeadlines({
    job: jobOf({ tier: "cached" }),
    hosts: [0],
    latest: undefined,
  });
  t.is(cached.assembly, assembly, "rows below memory are made later");
});
