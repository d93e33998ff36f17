// A run that adapts its plan (`planner.adapt`): while a generation trains, its devices' meters
// refine what the planner predicts, and another plan is sought. Where that plan saves more in the
// steps that are left than the move to it takes, the run goes on with it: at a cut, in another
// generation, as with other devices (scaling.ts). No bit depends on where rows lie (law 4).
//
//   a window of steps ─▶ another one ─▶ host.prepare, of the first ─▶ run.replanned
//   that warms up        is measured     host, with all measurements    └─ it pays ─▶ run.rescale
//
// Takes   host.progress
// Tells   run.replanned; run.alert where a search failed

import { fromCallback } from "xstate";
import { recordError } from "../../src/errors/errors.ts";
import type { AdaptSpec } from "../../src/job/planner-options.ts";
import type { PackedPlan } from "../../src/planner/packed-plan.ts";
import { deadlinesOf } from "../../src/ports/deadlines.ts";
import type { HostMeters } from "../../src/training/meters/step-meter.ts";
import { type RunPlan, runPlanSchema } from "../../src/training/planning/run-plan.ts";
import { devicesOf } from "../host/membership.ts";
import {
  assessMove,
  type MeasuredWindow,
  measuredOn,
  windowSince,
  withMeasured,
} from "../run-state/measured-plans.ts";
import type { MessageEvent } from "../runtime/listening.ts";
import { ask } from "../runtime/mailbox.ts";
import type { TrainingCoordinatorContext } from "./coordinator-context.ts";

type Heartbeat = MessageEvent<"host.progress">;

/** The numbers of its requests: no other request of a generation has them. */
const firstCommand = 2 ** 30;

/** Runs for as long as the generation trains. `input`: as training begins. */
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
      if (!isWarm) return; // Programs were compiled in this window.
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

/** Seeks another plan, and says so. Resolves to whether the run is to go on with it. */
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
    record.placed = { hosts: shares, placement: found };
    const { generation } = scope;
    const [from, atMs] = [devicesOf(hosts), network.clock.now()];
    record.scaling = { generation, from, atMs, moves: [], isAdapted: true };
    return true;
  } catch (error) {
    if (signal.aborted) return false;
    const message = `No other plan was sought: ${recordError(error).message}`;
    record.append(scope.generation, { type: "run.alert", code: "REPLAN_FAILED", step, message });
    return false;
  }
}

/** The plan that the first host has found. @throws DeadlineExceededError */
async function search(
  { network, mailbox, hosts, job, record }: TrainingCoordinatorContext,
  shares: readonly number[],
  command: number,
  signal: AbortSignal,
): Promise<RunPlan> {
  const [first] = hosts;
  const measured = measuredOn(record.measured, shares);
  const [found] = await ask({
    ...{ network, mailbox, signal },
    to: [{ role: "host", index: first?.host ?? 0 }],
    type: "host.prepare",
    body: { command, job, hosts: [...shares], pins: record.pins, measured },
    answer: (message) =>
      message.type === "host.prepared" && message.body.command === command
        ? { from: 0, answer: message.body.placement }
        : undefined,
    // The host gives the search itself half as long, once it has found its data.
    deadlineMs: 2 * deadlinesOf(job).planning,
  });
  return runPlanSchema.parse(found);
}

/**
 * How long a move takes: as long as the run's last change of devices; before one, about as long as
 * this generation was assembled and restored in, and once more for the checkpoint at the cut.
 */
function moveSecondsOf({ record, assemblyMs }: TrainingCoordinatorContext): number {
  return record.measured.changeSeconds ?? (2 * assemblyMs) / 1000;
}
