// Devices execute the step graph: they enter its tasks in its order, and start and wait for its
// rounds within each task. Every frame here fits its buffer; a longer one would take more rounds.

import { strict as assert } from "node:assert";
import test from "ava";
import { oneLabel } from "../../../src/data/targets.ts";
import { dynamicOptions } from "../../../src/embedding/tables/dynamic-options.ts";
import type { TableOptions } from "../../../src/embedding/tables/options.ts";
import { sparseOptimizerOptions } from "../../../src/embedding/tables/options.ts";
import { tiersOptions } from "../../../src/embedding/tables/tier-options.ts";
import { type AllReduce, channelNames, type Exchange } from "../../../src/exchange/exchange.ts";
import { layoutOf } from "../../../src/exchange/layout.ts";
import { createSharedMemoryExchange } from "../../../src/exchange/shared-memory.ts";
import { createSimulatedCells } from "../../../src/exchange/simulated-cells.ts";
import { createReference } from "../../../src/kernels/reference/reference.ts";
import { denseOptimizerOptions, modelOptions } from "../../../src/model/options.ts";
import { SimulatedClock } from "../../../src/ports/clock.ts";
import { RandomStream } from "../../../src/ports/random.ts";
import { createPipeline } from "../../../src/training/loop/pipeline.ts";
import type { PipelineSpec } from "../../../src/training/loop/pipeline-options.ts";
import { createStepMeter, meterWords } from "../../../src/training/meters/step-meter.ts";
import { noTrace, type StepTrace } from "../../../src/training/meters/step-trace.ts";
import { createDeviceState } from "../../../src/training/step/device-state.ts";
import {
  type StepChannel,
  type StepTask,
  stepFactsOf,
  stepGraph,
  stepPlaces,
} from "../../../src/training/step/step-graph.ts";
import { exchangeShapeOf } from "../../../src/training/topology/exchange-shape.ts";
import { type TopologyInput, topologyOf } from "../../../src/training/topology/topology.ts";
import * as dynamic from "../../helpers/batches/dynamic-scene.ts";
import { randomBatch } from "../../helpers/batches/random-batch.ts";
import { withRepeatedLists } from "../../helpers/batches/repeated-lists.ts";
import { localPart, type WholeBatch } from "../../helpers/devices/local-devices.ts";
import { belowOf } from "../../helpers/devices/tiers.ts";

const rows = [60, 40, 30];
const idsMax = [3, 1, 4];
const [dense, batchSize, steps] = [3, 16, 9];

interface Choice {
  readonly hosts?: readonly number[];
  readonly depths?: readonly PipelineSpec["depth"][];
  /** Options of each table; a table without an entry has those of the first. */
  readonly tables?: readonly Partial<TableOptions>[];
  readonly model?: Readonly<Record<string, unknown>>;
  readonly sparse?: Parameters<typeof sparseOptimizerOptions.parse>[0];
  readonly input?: Partial<TopologyInput>;
  readonly batches?: readonly WholeBatch[];
}

const stale = { staleness: 1 } as const;
const rowWise = { sharding: "row-wise", rowBlocks: 4 } as const;
const columns = [{ sharding: "column-wise", dim: 64 }] as const; // Two parts of 32.
const copied = { sharding: "data-parallel" } as const;
const cached = { tier: "cached" } as const;
/** Evicts no id during the run: the step after an eviction could not begin early. */
const ofIds: Partial<TableOptions> = {
  ...{ ...rowWise, pooling: "mean", idBits: 64 },
  dynamic: dynamicOptions.parse({ everySteps: 100 }),
};
const [pair, four] = [
  [0, 0],
  [0, 0, 1, 1],
];
const groups = [[0, 2], [1]];
const below = (prefetch: number) => ({ tiers: tiersOptions.parse({ hbmBytes: 1, prefetch }) });

const jobs: Readonly<Record<string, Choice>> = {
  "one device": { hosts: [0], depths: [1, 2, 3] },
  "whole tables on two devices": { depths: [1, 2, 3] },
  "tables by rows": { tables: [rowWise] },
  "tables by rows on two hosts, which add vectors up": { hosts: four, tables: [rowWise] },
  "tables by columns": { tables: columns, sparse: { kind: "rowWiseAdagrad" } },
  "tables by columns, with two rounds of sums": {
    ...{ tables: columns, sparse: { kind: "partialRowWiseLamb" } },
  },
  "copied tables": { tables: [copied, {}, {}] },
  "distinct rows": { tables: [{ dedup: true }, {}, {}] },
  "distinct lists": {
    input: { ikjt: groups },
    batches: batchesOf((batch, step) => withRepeatedLists(batch, groups, step)),
  },
  "stale tables": { depths: [1, 3], tables: [stale, {}, { ...stale, dedup: true }] },
  "stale and fresh distinct rows": {
    tables: [{ ...stale, dedup: true }, { dedup: true }, {}],
  },
  "stale and copied tables by rows on two hosts": {
    ...{ hosts: four, tables: [{ ...stale, ...rowWise }, rowWise, { ...stale, ...copied }] },
  },
  "tables that are read ahead": {
    ...{ tables: [{}, rowWise, { dedup: true }], input: { ahead: 1 }, batches: batchesOf(apart) },
  },
  "stale tables, and tables that are read ahead": {
    ...{ tables: [stale, {}, {}], input: { ahead: 1 }, batches: batchesOf(apart) },
  },
  "cached tables, fetched in their step": { tables: [cached], input: below(0) },
  "cached tables with prefetch": { depths: [1, 2, 3], tables: [cached], input: below(2) },
  "cached and stale tables": { tables: [cached, { ...cached, ...stale }, {}], input: below(2) },
  "batch normalisation": { model: { batchNorm: true } },
  "labels with gaps": { input: { targets: { ...oneLabel, hasGaps: true } } },
  "buckets of dense gradients between two hosts": {
    ...{ hosts: [0, 1], model: { bottom: [300, 300, 16], top: [300, 300, 1] } },
  },
  "bags of dynamic ids by rows, read ahead": {
    input: dynamic.inputOf([ofIds, ofIds, ofIds], { ahead: 1 }),
    batches: dynamic.batches.map((batch, step) => {
      return { ...batch, highs: new Int32Array(batch.ids.length).fill(step) }; // As in `apart`.
    }),
  },
};

for (const [title, choice] of Object.entries(jobs)) {
  for (const depth of choice.depths ?? [3]) {
    test(`a device executes the step graph in order: ${title}, depth ${depth}`, async (t) => {
      const { facts, records } = await record(choice, depth);
      const expected = stepGraph(facts);
      t.true(expected.length > 10);
      for (const [rank, all] of records.entries()) {
        for (const step of [4, 5]) t.deepEqual(all[step], expected, `device ${rank}, step ${step}`);
      }
    });
  }
}

test("a task runs at the first place where it needs no wait, and once for a step", async (t) => {
  for (const title of ["whole tables on two devices", "cached tables with prefetch"]) {
    let moved = 0;
    for (let seed = 1; seed < 6; seed++) {
      const { facts, records } = await record(jobs[title] ?? {}, 3, seed);
      const expected = stepGraph(facts);
      for (const all of records) {
        t.is(outOfPlace(stepPlaces(facts), all), undefined, `${title}, seed ${seed}`);
        moved += all.filter((own) => own.length !== expected.length).length;
      }
    }
    t.true(moved > 0, "some device was late"); // Otherwise only first places are tested.
  }
});

/** The first place without its task, or the first task outside of its places, if there is one. */
function outOfPlace(places: ReturnType<typeof stepPlaces>, all: readonly (readonly StepTask[])[]) {
  const done = new Set<string>();
  for (const [step, own] of all.entries()) {
    let next = 0;
    /** Whether the next task is that of this place; if so, goes to the task after it. */
    const runs = ({ isEager: _, ...place }: (typeof places)[number], ahead: number) => {
      const task = own[next];
      const key = `${place.name} ${step + ahead}`;
      if (JSON.stringify(task) !== JSON.stringify({ ...place, ahead }) || done.has(key))
        return false;
      done.add(key);
      next++;
      return true;
    };
    const eager = places.filter(({ isEager }) => isEager);
    for (const place of places) {
      const { name, ahead, isEager } = place;
      const isDone = done.has(`${name} ${step + ahead}`);
      if (!isEager && !isDone && step + ahead < steps && !runs(place, ahead))
        return { step, place };
      // At an eager place, the tasks of several later steps may run, one after another.
      const mayRun = (own: (typeof places)[number]) =>
        Array.from({ length: own.ahead }, (_, i) => i + 1).some((at) => runs(own, at));
      while (isEager && eager.some(mayRun));
    }
    if (next < own.length) return { step, task: own[next] };
  }
  return undefined;
}

function batchesOf(change: (batch: WholeBatch, step: number) => WholeBatch = (batch) => batch) {
  return Array.from({ length: steps }, (_, step) =>
    change(randomBatch({ rows, idsMax, dense }, step, batchSize), step),
  );
}

/** No id is in two batches in a row: a deferred row would need a round of its own here. */
function apart(batch: WholeBatch, step: number): WholeBatch {
  return { ...batch, ids: batch.ids.map((id) => id - (id % 2) + (step % 2)) };
}

function inputOf({ tables = [{}], model, input }: Choice): TopologyInput {
  const { dim = 16 } = tables[0] ?? {};
  const spec = modelOptions.parse({
    ...{ kind: "dlrm", dense, bottom: [8, dim], top: [8, 1] },
    tables: rows.map((count, i) => ({
      ...{ name: `T${i}`, rows: count, dim, ...(tables[i] ?? tables[0]) },
    })),
    ...model,
  });
  return { model: spec, batchSize, slices: 8, idsMax, ...input };
}

/**
 * The tasks of all steps of each device. With a `seed`, devices run in a random order and readers
 * are sometimes late; without one, no data are late, so that no task is postponed.
 */
async function record(choice: Choice, depth: PipelineSpec["depth"], seed?: number) {
  const { hosts: hostOf = pair, batches = batchesOf() } = choice;
  const topology = topologyOf(inputOf(choice), hostOf.length, hostOf);
  const { hostOf: _, ...shape } = exchangeShapeOf(topology);
  const layout = layoutOf(shape);
  const memory = new SharedArrayBuffer(layout.bytes);
  const cells = createSimulatedCells({ cells: layout.cells, seed: seed ?? 1 });
  const clock = new SimulatedClock();
  const sparse = sparseOptimizerOptions.parse(choice.sparse ?? { kind: "sgd" });
  const recipe = {
    optimizer: { dense: denseOptimizerOptions.parse({ kind: "sgd" }), sparse },
    seed: 3,
  };
  const records = hostOf.map((): StepTask[][] => []);
  await cells.run(
    hostOf.map((_, rank) => async () => {
      const kernels = createReference();
      const recorder = new Recorder(seed === undefined, topology.buckets.length);
      const own = { shape, rank, memory, cells: cells.cellsOf(rank), kernels };
      const exchange = recorder.exchange(createSharedMemoryExchange(own));
      const backing = belowOf(topology, rank, recipe);
      const { trace } = recorder;
      const state = createDeviceState({
        ...{ rank, topology, recipe, kernels, exchange, backing, trace },
      });
      const late = new RandomStream(seed ?? 1, rank);
      let given = 0;
      const take = () => {
        const batch = batches[given++];
        assert(batch !== undefined, "there is a batch for each step");
        return localPart(topology, rank, batch);
      };
      const intake = {
        ...{ next: async () => take(), waiting: () => 1, release() {}, grant() {} },
        nextIfThere: () => (seed !== undefined && late.below(3) === 0 ? undefined : take()),
      };
      const meter = createStepMeter(new BigInt64Array(meterWords), clock);
      const pipeline = createPipeline({ device: state, intake, depth, steps, meter });
      for (let step = 0; step < steps; step++) {
        recorder.tasks = [];
        recorder.step = step;
        await pipeline.run(step, steps, () => -1);
        records[rank]?.push(recorder.tasks.map(taskOf));
      }
    }),
  );
  return { facts: stepFactsOf(topology, { depth, sparse: sparse.kind }), records };
}

interface Recorded extends Pick<StepTask, "name" | "ahead"> {
  readonly acts: { readonly kind: "send" | "wait"; readonly channel: StepChannel }[];
}

class Recorder {
  tasks: Recorded[] = [];
  step = 0;
  /** Whether every channel reports that it is free and has its data: no task is postponed. */
  readonly #isIdeal: boolean;
  readonly #buckets: number;

  constructor(isIdeal: boolean, buckets: number) {
    this.#isIdeal = isIdeal;
    this.#buckets = buckets;
  }

  readonly trace: StepTrace = {
    ...noTrace,
    enter: (step = -1, name) => void this.tasks.push({ name, ahead: step - this.step, acts: [] }),
  };

  /** The same exchange: every round that is started or waited for is noted in the current task. */
  exchange(own: Exchange): Exchange {
    const note = (kind: "send" | "wait", channel: StepChannel) => {
      const task = this.tasks.at(-1);
      assert(task !== undefined, `${channel} is used inside a task`);
      task.acts.push({ kind, channel });
    };
    const noted = channelNames.map((name) => {
      const channel = own[name];
      const sends = {
        start(used?: (to: number) => number) {
          note("send", name);
          channel.start(used);
        },
        finish() {
          note("wait", name);
          return channel.finish();
        },
        ...(this.#isIdeal && { isFree: () => true, isThere: () => true }),
      };
      return [name, { ...channel, ...sends }];
    });
    const gradients = notedSum(own.gradients, this.#buckets, note);
    return { ...own, ...Object.fromEntries(noted), gradients };
  }
}

/** Notes one start of an all-reduce for each bucket. */
function notedSum(
  sum: AllReduce,
  buckets: number,
  note: (kind: "send" | "wait", channel: "gradients") => void,
): AllReduce {
  let started = 0;
  return {
    ...sum,
    open() {
      started = 0;
      return sum.open();
    },
    start(count = buckets) {
      for (; started < count; started++) note("send", "gradients");
      sum.start(count);
    },
    finish() {
      note("wait", "gradients");
      return sum.finish();
    },
  };
}

/** A round that is started and waited for in one task is a round of the task. */
function taskOf({ name, ahead, acts }: Recorded): StepTask {
  const [waits, rounds, sends]: StepChannel[][] = [[], [], []];
  assert(waits && rounds && sends);
  for (const { kind, channel } of acts) {
    const at = sends.lastIndexOf(channel);
    if (kind === "send") sends.push(channel);
    else if (at < 0) waits.push(channel);
    else rounds.push(...sends.splice(at, 1));
  }
  return { name, ahead, waits, rounds, sends };
}
