// A run keeps the sharding of a job's tables: each table with a scheme is cut by it, or the job is
// refused, or the run's report has a note about the table.

import test from "ava";
import { checkSchemes } from "../../src/job/check-placement.ts";
import { type JobOptions, resolveJob } from "../../src/job/job.ts";
import { defaultConstants } from "../../src/planner/cost/constants.ts";
import { unpackPlan } from "../../src/planner/packed-plan.ts";
import { isOfOneHost, type Scheme, schemes } from "../../src/planner/shards.ts";
import { planRun } from "../../src/training/planning/run-plan.ts";
import { topologyOf } from "../../src/training/topology/topology.ts";
import { fc } from "../helpers/properties.ts";

interface WrittenTable {
  readonly rows: number;
  readonly dim: number;
  readonly sharding: Scheme | "auto";
  readonly rowBlocks: "auto" | 1 | 2 | 8;
}

const tableArbitrary: fc.Arbitrary<WrittenTable> = fc.record({
  rows: fc.constantFrom(1, 3, 100, 5000, 2_000_000),
  dim: fc.constantFrom(4, 32, 33, 64, 128),
  sharding: fc.constantFrom("auto" as const, ...schemes),
  rowBlocks: fc.constantFrom("auto" as const, "auto" as const, 1 as const, 2 as const, 8 as const),
});

function jobOf(tables: readonly WrittenTable[], sharding: "auto" | "as-written") {
  const named = tables.map((table, i) => ({ name: `T${i}`, ...table }));
  return resolveJob({
    model: { kind: "dlrm", tables: named, interaction: "cat", top: [1] },
    data: { kind: "synthetic", samples: 1000, dense: 0, batchSize: 256, idsPerBag: 5 },
    sharding,
  } as JobOptions);
}

/** The number of devices over which a scheme can spread a table. */
function spanOf(scheme: Scheme, hosts: readonly number[]): number {
  const isEven = hosts.every((count) => count === hosts[0]);
  const all = hosts.reduce((sum, count) => sum + count, 0);
  if (scheme === "table-wise") return 1;
  return isOfOneHost(scheme) && scheme !== "grid" && isEven ? (hosts[0] ?? 1) : all;
}

test("a table with its own sharding keeps it, or the job is refused or gets a note", (t) => {
  const arbitrary = fc.record({
    tables: fc.array(tableArbitrary, { minLength: 1, maxLength: 5 }),
    hosts: fc.constantFrom([1], [2], [4], [1, 1], [2, 2], [3, 3, 3], [2, 1]),
    sharding: fc.constantFrom("auto" as const, "as-written" as const),
  });
  let [kept, refused, told] = [0, 0, 0];
  const property = fc.property(arbitrary, ({ tables, hosts, sharding }) => {
    const job = jobOf(tables, sharding);
    const isCuttable = ({ dim, rowBlocks, sharding: scheme }: (typeof job.model.tables)[number]) =>
      (!["row-wise", "table-row-wise", "grid"].includes(scheme) || rowBlocks > 1) &&
      (!["column-wise", "table-column-wise", "grid"].includes(scheme) || dim > 32);
    const isRight = job.model.tables.every(isCuttable);
    if (!isRight) {
      refused++;
      t.throws(() => checkSchemes(job), { code: "INVALID_OPTION" });
    } else {
      checkSchemes(job);
    }
    // A refused job that an earlier version recorded still runs; a note names its tables.
    const found = planRun(job, { hosts, constants: defaultConstants, memoryBytes: 1e13 });
    const note = found.report.note ?? "";
    const { hostOf, plan } = placementOf(job, hosts, found.plan);
    for (const table of job.model.tables) {
      const { name, sharding: written } = table;
      if (written === "auto") continue;
      const shards = plan.filter((shard) => shard.name === name);
      const used = new Set(shards.flatMap(({ device }) => device));
      const span = spanOf(written, hosts);
      if (note.includes(name)) told++;
      else if (isCuttable(table) && (span > 1 || written === "table-wise")) {
        kept++;
        // Shards show the cut, devices do not: two parts of a table may share a device.
        const isWhole = shards.some(({ blocks, columns }) => {
          return blocks === table.rowBlocks && columns === table.dim;
        });
        const isOne = written === "table-wise" || written === "data-parallel";
        t.is(isWhole, isOne, `${name} ${written} on ${hosts}: ${JSON.stringify(table)} ${note}`);
        t.is(used.has("all"), written === "data-parallel");
        const isCutByRows = shards.some(({ firstBlock }) => firstBlock > 0);
        if (written === "row-wise" || written === "table-row-wise") t.true(isCutByRows);
        if (written.includes("column-wise")) t.false(isCutByRows);
        const usedHosts = new Set([...used].map((device) => hostOf[Number(device)]));
        if (written.startsWith("table-")) t.is(usedHosts.size, 1, `${name} ${written} on ${hosts}`);
      } else {
        t.is(used.size, 1);
      }
      const isTold = !isCuttable(table) || (isOfOneHost(written) && hosts[0] !== hosts.at(-1));
      const devices = hosts.reduce((sum, count) => sum + count, 0);
      if (devices > 1 && tables.length <= 3) t.is(note.includes(name), isTold, note);
    }
  });
  fc.assert(property, { numRuns: 300 });
  for (const count of [kept, refused, told]) t.true(count > 20);
});

test("a scheme that could cut its table on no devices is refused in one sentence", (t) => {
  const of = { rows: 100, dim: 64, rowBlocks: "auto" } as const;
  const sentence = (table: Partial<WrittenTable>) => {
    const job = jobOf([{ ...of, sharding: "auto", ...table }], "auto");
    return t.throws(() => checkSchemes(job), { code: "INVALID_OPTION" }).message;
  };
  t.is(
    sentence({ sharding: "row-wise", rowBlocks: 1 }),
    "Expected `model.tables[0].rowBlocks` to be left out, or at least 2, where `sharding` is " +
      '"row-wise", which cuts between row blocks, got `1` (number)',
  );
  t.is(
    sentence({ sharding: "grid", rows: 1 }),
    "Expected `model.tables[0].sharding` to be another scheme for a table of one row, as rows " +
      "cannot be cut, got `grid` (string)",
  );
  t.is(
    sentence({ sharding: "column-wise", dim: 16 }),
    "Expected `model.tables[0].sharding` to be another scheme for a table of 16 columns, as " +
      "columns are cut in quanta of 32, got `column-wise` (string)",
  );
});

/** The shards of a generation, as its devices compute them. */
function placementOf(
  { model, slices }: ReturnType<typeof jobOf>,
  hosts: readonly number[],
  packed: Parameters<typeof unpackPlan>[0] | undefined,
) {
  const hostOf = hosts.flatMap((count, host) => new Array<number>(count).fill(host));
  const plan = packed && unpackPlan(packed, model.tables);
  const idsMax = model.tables.map(() => 5);
  const input = { model, batchSize: 256, slices: Math.max(slices, hostOf.length), idsMax, plan };
  const topology = topologyOf(input, hostOf.length, hostOf);
  return { hostOf, plan: [...topology.heldBy.flat(), ...topology.replicated] };
}
