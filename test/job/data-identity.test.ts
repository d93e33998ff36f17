// The rules of data (docs/data.md) in a job's identity: a rule that decides bits changes it.

import test from "ava";
import type { CsvOptions } from "../../src/data/options.ts";
import { csv } from "../../src/data/sources.ts";
import { jobIdentity, resolveJob } from "../../src/job/job.ts";

const tables = [
  { name: "a", rows: 10, dim: 4 },
  { name: "b", rows: 10, dim: 4, ids: "clamp" },
] as const;
const b = { column: "b", ids: "integer", offset: 3, separator: "|", weightSeparator: ":" } as const;

function identityOf(change: Partial<CsvOptions> = {}, dense = 2): string {
  const columns = { dense: ["p", { column: "q", log: true }], categorical: ["a", b] };
  const data = csv("x.csv", { label: "y", ...columns, batchSize: 10, quarantineMax: 5, ...change });
  const model = { kind: "dlrm" as const, dense, tables: [...tables], bottom: [4], top: [4, 1] };
  return jobIdentity(resolveJob({ model, data }));
}

test("explicit defaults, limits and permissions do not change a job's identity", (t) => {
  const q = { column: "q", log: true, missing: 0 as const, unreadable: "reject" as const };
  t.is(identityOf({ missing: 0, unreadable: "reject", dense: ["p", q] }), identityOf());
  t.is(identityOf({ rejectedMax: 0.5, labelAsFeature: true }), identityOf());
});

test("each rule that decides a sample changes the identity", (t) => {
  const changes: Partial<CsvOptions>[] = [
    { positive: 2 },
    { missing: "mean" },
    { missing: "reject" },
    { unreadable: "missing" },
    {
      dense: [
        { column: "p", missing: "mean" },
        { column: "q", log: true },
      ],
    },
    { categorical: [{ column: "a", missing: "empty" }, b] },
  ];
  const identities = [identityOf(), ...changes.map((change) => identityOf(change))];
  t.is(new Set([...identities, identityOf({ missing: "indicator" }, 4)]).size, 8);
});

test("a rule of the section and the same rule on each column give one identity", (t) => {
  const dense = [
    { column: "p", missing: "mean" as const },
    { column: "q", log: true, missing: "mean" as const },
  ];
  t.is(identityOf({ dense }), identityOf({ missing: "mean" }));
});
