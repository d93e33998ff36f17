// Adaptive planning (`planner.adapt`): while a generation trains, the meters of its devices refine
// the planner's predictions, and a new plan is searched for. Where it saves more in the remaining
// steps than the move costs, the run moves to it: at a cut, in a new generation, as with a change
// of devices (scaling.ts). The result does not depend on where rows lie, to the bit (law 4).
//
//   a window of steps ─▶ the next one ─▶ host.prepare, of the first ─▶ run.replanned
//   that warms up        is measured     host, with all measurements    └─ it pays ─▶ run.rescale
//
// Takes   host.progress
// Emits   run.replanned; run.alert where a search failed

import { fromCallback } from "xstate";
import { recordError } from "../../../src/errors/errors.ts";
import { jobTextOf } from "../../../src/job/job.ts";
import type { AdaptSpec } from "../../../src/job/job-schema.ts";
import type { PackedPlan } from "../../../src/planner/packed-plan.ts";
import { deadlinesOf } from "../../../src/ports/deadlines.ts";
import type { HostMeters } from "../../../src/training/meters/step-meter.ts";
import { type RunPlan, runPlanSchema } from "../../../src/training/planning/plan-report.ts";
import { devicesOf } from "../../host/membership.ts";
import { type MessageEvent, request } from "../../runtime/mailbox.ts";
import {
  assessMove,
  type MeasuredWindow,
  measuredOn,
  windowSince,
  withMeasured,
} from "../state/measured-plans.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";
import { hardwareOf } from "./host-hardware.ts";

type Heartbeat = MessageEvent<"host.progress">;

/** Number of the first request, above the numbers of all other requests of a generation. */
const firstCommand = 2 ** 30;

/** Runs while the generation trains. `input`: the context when training begins. */
export const adaptingPlan = fromCallback<Heartbeat, TrainingCoordinatorContext>(
  ({ input, sendBack, receive }) => {
    const { job, placement, hosts, record } = input;
    const { adapt } = job.planner;
    const plan = placement?.plan;
    if (adapt === undefined || plan === undefined || devicesOf(hosts) < 2) return undefined;
    const end = new AbortController();
    let latest: ReadonlyMap<number, HostMeters> = new Map();
    let start: ReadonlyMap<number, HostMeters> | undefined;
    let isSearching = false;
    let requests = 0;
    receive(({ body: { host, meters, steps } }) => {
      latest = new Map(latest).set(host, meters);
      const window = windowSince(start ?? new Map(), latest, hosts, adapt.everySteps);
      if (window === undefined || isSearching || record.scaling !== undefined) return;
      const isWarm = start !== undefined;
      start = latest;
      if (!isWarm) return; // A warm-up window: hot code was still being compiled.
      isSearching = true;
      const run = { command: firstCommand + requests++, step: steps[0] ?? 0, signal: end.signal };
      void replan(input, plan, adapt, { ...run, window })
        .then((isTaken) => {
          if (isTaken) sendBack({ type: "run.rescale" });
        })
        .finally(() => {
          isSearching = false;
        });
    });
    return () => end.abort();
  },
);

interface ReplanRequest {
  readonly command: number;
  readonly step: number;
  readonly window: MeasuredWindow;
  readonly signal: AbortSignal;
}

/** Searches a plan and publishes the assessment. Resolves to whether the run moves to the plan. */
async function replan(
  context: TrainingCoordinatorContext,
  present: PackedPlan,
  adapt: AdaptSpec,
  { command, step, window, signal }: ReplanRequest,
): Promise<boolean> {
  const { record, scope, network, hosts, schedule } = context;
  const shares = hosts.map(({ devices }) => devices);
  record.measured = withMeasured(record.measured, shares, {
    plan: present,
    seconds: window.seconds,
  });
  try {
    const found = await search(context, shares, command, signal);
    const { refined, plan, report } = found;
    if (refined === undefined || plan === undefined) throw new RangeError(report.note);
    const assessed = assessMove(
      refined,
      {
        stepSeconds: window.stepSeconds,
        stepsLeft: (schedule?.steps ?? 0) - step,
        moveSeconds: moveSecondsOf(context),
      },
      adapt,
    );
    record.append(scope.generation, { type: "run.replanned", step, ...refined, ...assessed });
    if (!assessed.isTaken || record.scaling !== undefined) return false;
    record.placed = { ...record.placed, hosts: shares, placement: found };
    const { generation } = scope;
    const [from, atMs] = [devicesOf(hosts), network.clock.now()];
    record.scaling = { generation, from, atMs, moves: [], isAdapted: true };
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    const message = `The search for a better plan failed: ${recordError(error).message}`;
    record.append(scope.generation, { type: "run.alert", code: "REPLAN_FAILED", step, message });
    return false;
  }
}

/** The plan found by the first host of the generation. @throws DeadlineExceededError */
async function search(
  context: TrainingCoordinatorContext,
  shares: readonly number[],
  command: number,
  signal: AbortSignal,
): Promise<RunPlan> {
  const { network, mailbox, hosts, job, record } = context;
  const [first] = hosts;
  const measured = measuredOn(record.measured, shares);
  const { choice: _choice, ...hardware } = hardwareOf(context);
  const [found] = await request({
    ...{ network, mailbox, signal },
    to: [{ role: "host", index: first?.host ?? 0 }],
    type: "host.prepare",
    body: {
      ...{ command, job: jobTextOf(job), hosts: [...shares], pins: record.pins, measured },
      ...hardware,
    },
    answer: (message) =>
      message.type === "host.prepared" && message.body.command === command
        ? { from: 0, answer: message.body.placement }
        : undefined,
    // The host limits the search to half of this; opening its data comes before.
    deadlineMs: 2 * deadlinesOf(job).planning,
  });
  return runPlanSchema.parse(found);
}

/**
 * Expected duration of a move in seconds: that of the run's last change of devices. Before the
 * first change: twice the assembly of this generation, once for the restore and once for the
 * checkpoint at the cut.
 */
function moveSecondsOf({ record, assemblyMs }: TrainingCoordinatorContext): number {
  return record.measured.changeSeconds ?? (2 * assemblyMs) / 1000;
}
