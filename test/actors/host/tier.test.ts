// The tier and shard actors answer requests, and a tier flushes once, even if messages are repeated
// or lost. The writer actor reports when its disk is full.

import test from "ava";
import { setup } from "xstate";
import { shardMachine } from "../../../actors/host/shard.ts";
import { type TierInput, tierMachine } from "../../../actors/host/tier.ts";
import { writerMachine } from "../../../actors/host/writer.ts";
import { createGeneration } from "../../../actors/threads/generation-memory.ts";
import { hostPlaceOf } from "../../../actors/threads/generation-spec.ts";
import { resolveJob } from "../../../src/job/job.ts";
import {
  createFakeLauncher,
  smallGenerationSpec,
  startActor,
  startSimulatedNetwork,
} from "../../helpers/clusters/actors.ts";
import { smallData, smallModel } from "../../helpers/clusters/clusters.ts";

const self = { role: "tier", index: 0 } as const;
const inspector = { role: "inspector", index: 0 } as const;

function cachedGeneration() {
  const tables = smallModel.tables?.map((table) => ({ ...table, tier: "cached" as const }));
  const model = { ...smallModel, tables } as typeof smallModel;
  const spec = { ...smallGenerationSpec(), job: resolveJob({ model, data: smallData }) };
  return createGeneration(spec, hostPlaceOf(spec, 0));
}

/** A stand-in for the host generation that receives a tier's events. */
const parent = setup({
  types: {} as { context: TierInput; input: TierInput },
  actors: { tier: tierMachine },
}).createMachine({
  context: ({ input }) => input,
  invoke: { src: "tier", input: ({ context }) => context },
});

function startTier() {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const generation = cachedGeneration();
  const input = { network: place.network, launcher, generation, device: 0 };
  place.heard(inspector);
  startActor(place, parent, input);
  const [thread] = threads;
  if (thread === undefined) throw new Error("No thread was started");
  return { ...place, thread };
}

test("a repeated flush is executed once, and each request is answered", async (t) => {
  const { thread, heard, pass, say } = startTier();
  thread.report({ type: "serving" });
  say(self, "tier.flush", { command: 7 });
  say(self, "tier.flush", { command: 7 }); // While the tier is busy.
  say(self, "tier.flush", { command: 8 }); // Ignored while a flush runs.
  await pass(0);
  t.deepEqual(thread.commands, [{ type: "flush" }]);
  thread.report({ type: "flushed", rows: 3 });
  await pass(0);
  say(self, "tier.flush", { command: 7 }); // The answer was lost.
  await pass(0);
  t.is(thread.commands.length, 1);
  t.deepEqual(
    heard(inspector).map(({ type, body }) => [type, body]),
    [0, 1].map(() => ["tier.flushed", { command: 7, device: 0, rows: 3 }]),
  );
  say(self, "tier.flush", { command: 8 });
  await pass(0);
  t.is(thread.commands.length, 2);
});

test("a tier answers an inspection with its state and tables, even before its store is open", async (t) => {
  const { thread, heard, pass, say } = startTier();
  say(self, "tier.inspect", { command: 1 });
  await pass(0);
  thread.report({ type: "opened", store: "file", found: undefined });
  thread.report({ type: "slow" });
  say(self, "tier.inspect", { command: 2 });
  await pass(0);
  const reports = heard(inspector).map(({ body }) => (body as { report: object }).report);
  t.like(reports[0], { actor: "tier:0", state: "opening", requests: 0 });
  t.like(reports[1], { actor: "tier:0", state: "slow", store: "file" });
});

test("a shard answers every inspection with its description", async (t) => {
  const { network, clock, heard, pass, say, ...place } = startSimulatedNetwork();
  const generation = cachedGeneration();
  const shard = generation.layout.topology.heldBy[0]?.[0];
  if (shard === undefined) throw new Error("Device 0 has no shard");
  heard(inspector);
  const input = { network, generation, shard, device: 0, isRestored: false, part: undefined };
  startActor({ network, clock, heard, pass, say, ...place }, shardMachine, input);
  const shardOf = { role: "shard", index: shard.shard } as const;
  for (const command of [1, 1, 2]) say(shardOf, "shard.inspect", { command });
  await pass(0);
  const answers = heard(inspector).map(({ body }) => body as { command: number; report: object });
  t.deepEqual(
    answers.map(({ command }) => command),
    [1, 1, 2],
  );
  t.like(answers[2]?.report, { state: "restoring", table: shard.name, device: 0, cachedRows: 0 });
});

test("a writer reports to the coordinator that its disk is full, and that it has room again", async (t) => {
  const place = startSimulatedNetwork();
  const { launcher, threads } = createFakeLauncher();
  const spec = smallGenerationSpec();
  const generation = createGeneration(spec, hostPlaceOf(spec, 0));
  const coordinator = { role: "coordinator", index: 0 } as const;
  place.heard(coordinator);
  const input = { network: place.network, launcher, generation, device: 0, replicas: {} as never };
  startActor(place, writerMachine, input);
  for (const type of ["writing", "paused", "writing"]) {
    threads[0]?.report({ type });
    await place.pass(0);
  }
  const messages = place.heard(coordinator).map(({ type, body }) => ({ type, body }));
  t.deepEqual(messages, [
    { type: "writer.room", body: { device: 0, isAwaited: true } },
    { type: "writer.room", body: { device: 0, isAwaited: false } },
  ]);
});
