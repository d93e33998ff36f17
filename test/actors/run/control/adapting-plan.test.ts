// A training coordinator that adapts its plan, with simulated hosts: its requests, its events about
// the answer, and an answer without a plan, after which training continues.

import test from "ava";
import { trainingCoordinatorMachine } from "../../../../actors/run/control/training-coordinator.ts";
import { Registry } from "../../../../actors/run/state/registry.ts";
import type { RunEvent } from "../../../../actors/run/state/run-events.ts";
import { defaultConstants } from "../../../../src/planner/cost/constants.ts";
import { meterWords } from "../../../../src/training/meters/step-meter.ts";
import type { RunPlan } from "../../../../src/training/planning/plan-report.ts";
import { planRun, replanRun } from "../../../../src/training/planning/run-plan.ts";
import {
  scope,
  smallGenerationSpec,
  startActor,
  startMembership,
  startSimulatedNetwork,
} from "../../../helpers/clusters/actors.ts";

const self = { role: "coordinator", index: 0 } as const;
const host = { role: "host", index: 0 } as const;
const setting = { hosts: [2], constants: defaultConstants, memoryBytes: 1e9 };
const everySteps = 4;

/** Starts a coordinator that trains on two devices by a plan. */
async function startAdapting(more: { gainMin?: number; margin?: number } = {}) {
  const place = startSimulatedNetwork();
  const { network, say, pass } = place;
  const spec = smallGenerationSpec();
  const adapt = { everySteps, gainMin: 0.05, margin: 0, ...more };
  const job = { ...spec.job, planner: { adapt } };
  const placement = planRun(job, setting);
  const published: RunEvent[] = [];
  const record = new Registry("r", (event) => published.push(event)).add(job);
  const membership = startMembership({ devices: 2 });
  const hosts = membership.sharesFor("r", 8);
  const input = { network, scope, job, hosts, membership, store: {} as never, record };
  const { ends } = startActor(place, trainingCoordinatorMachine, {
    ...input,
    latest: undefined,
    failedAtMs: undefined,
  });
  say(self, "host.prepared", { command: 1, plan: spec.data, placement });
  await pass(0);
  for (let device = 0; device < 2; device++) {
    const restored = { memoryBytes: 0, storeBytes: 0, keptBytes: 0 };
    say(self, "device.ready", { device, step: 0, arithmetic: "reference-1", restored });
  }
  await pass(0);
  /** A heartbeat with both devices at `step`; they computed for 10 and 30 ms of each step. */
  const beat = async (step: number) => {
    const devices = [10, 30].map((ms) => {
      const words = new Array<number>(meterWords).fill(0);
      return Object.assign(words, { 0: step, 2: 30_000 * step, 4: 1000 * (30 - ms) * step });
    });
    const calm = { beat: 1, isBridged: true, tiers: [], waits: [], lossFrom: 0, losses: [] };
    const meters = { devices, reading: [0, 0] };
    say(self, "host.progress", { host: 0, ...calm, steps: [step, step], meters });
    await pass(100);
  };
  const requests = () => {
    const bodies = place.heard(host).flatMap(({ type, body }) => {
      return type === "host.prepare" ? [body as { command: number; measured?: unknown }] : [];
    });
    const seen = new Map(bodies.map((body) => [body.command, body]));
    return [...seen.values()].filter(({ measured }) => measured !== undefined);
  };
  const answer = async (found: RunPlan | undefined) => {
    const { command = 0 } = requests().at(-1) ?? {};
    say(self, "host.prepared", { command, plan: spec.data, placement: found });
    await pass(0);
  };
  const events = (type: string) => published.filter((event) => event.type === type);
  return { ...place, job, placement, ends, record, beat, requests, answer, events };
}

test("after a warm-up window and a measured one, the coordinator requests another plan", async (t) => {
  const { beat, requests, placement, job, answer, events, record } = await startAdapting();
  for (const step of [2, 4, 6]) await beat(step);
  t.is(requests().length, 0);
  await beat(8);
  const [question] = requests();
  t.like(question, { hosts: [2], measured: [{ plan: placement.plan, seconds: [0.01, 0.03] }] });
  await beat(20);
  t.is(requests().length, 1, "one search at a time");
  const measured = [
    { plan: placement.plan ?? { hosts: 1, perHost: 2, shards: [] }, seconds: [0.01, 0.03] },
  ];
  const found = replanRun(job, setting, measured);
  await answer(found);
  const [replanned] = events("run.replanned");
  t.like(replanned, { step: 8, ...found?.refined });
  const gain = 1 - (found?.refined?.planned ?? 0) / (found?.refined?.now ?? 1);
  t.like(replanned, { isTaken: gain >= 0.05 });
  t.deepEqual(record.placed?.placement.plan, gain >= 0.05 ? found?.plan : placement.plan);
});

test("a plan that pays off is adopted at a cut", async (t) => {
  const { beat, answer, placement, record, heard, events } = await startAdapting();
  for (const step of [4, 8]) await beat(step);
  await answer({ ...placement, refined: { now: 2, planned: 1 } });
  t.like(events("run.replanned"), [{ gain: 0.5, isTaken: true }]);
  t.like(record.scaling, { isAdapted: true, moves: [] });
  const paused = heard({ role: "device", index: 0 }).filter(({ type }) => type === "device.pause");
  t.true(paused.length > 0);
});

test("a search that finds no plan raises an alert, and the run continues", async (t) => {
  const { beat, answer, events, ends, requests } = await startAdapting();
  for (const step of [4, 8]) await beat(step);
  await answer({ report: { by: "as-written", note: "no plan has room" } });
  t.like(events("run.alert"), [{ code: "REPLAN_FAILED", step: 8 }]);
  t.regex(
    JSON.stringify(events("run.alert")),
    /The search for a better plan failed: no plan has room/,
  );
  t.is(ends.error, undefined);
  for (const step of [12, 13]) await beat(step);
  t.is(requests().length, 2, "a failed search is repeated");
});
