// The tasks of one step of a device, declared once. A device enters its tasks by these names
// (`enter`), so they are the names of its trace; the simulator of clusters (packages/what-if) plans
// time for the same list. test/training/step/step-graph.test.ts holds the list equal to what
// devices run (decision 55).
//
// A device does one task at a time, in the order of the list. A task first waits for what other
// devices send on `waits`; then it works. During the work it may send and wait for one round after
// the other (`rounds`). Messages in `sends` are sent at the end of the work; parts of vectors, and
// buckets of the dense gradient, are sent as they are made. Waits for room (`open`) are not listed:
// a receiver closes a round long before the next one, unless devices are a step apart.

import type { SparseOptimizerSpec } from "../../embedding/tables/options.ts";
import type { ChannelName } from "../../exchange/exchange.ts";
import { backwardOrder } from "../../model/graph/network.ts";
import type { PipelineSpec } from "../loop/pipeline-options.ts";
import type { Read } from "../topology/fresh-and-stale.ts";
import { prefetchOf, type Topology } from "../topology/topology.ts";
import { addsOnHosts } from "./host-reduce.ts";
import { rowSumRounds } from "./row-sums.ts";

/** The tasks of a device. */
export const stepTasks = [
  "batch", // waits for a batch from its readers
  "ids", // maps ids to rows, and sends them to the devices that hold the rows
  "receiveIds", // waits for the ids of its rows, and requests rows from below device memory
  "tiers", // waits until these rows are in device memory
  "lookup", // reads rows, pools them, and sends the vectors or rows
  "lookupAhead", // the same for the next step, before the update of rows
  "lookupRest", // the same for the next step, after the update: changed rows, and other tables
  "lookupReplicas", // reads tables of which every device has a copy
  "forwardEarly", // dense blocks that need no vectors, forward
  "receiveReads", // waits for the vectors of its samples, and writes them into the network
  "forwardLate", // all other blocks, forward, and the loss
  "backwardLate", // the same blocks, backward
  "sendGradients", // sends the gradients of vectors and rows
  "backwardEarly", // blocks that need no vectors, and copied tables, backward; sends the losses
  "receiveGradients", // waits for the gradients of its rows
  "updateRows", // applies them
  "allReduce", // waits for the dense gradients of all devices
  "updateDense", // applies their sum
  "losses", // waits for the losses of all devices
  "checkpoint", // hands its part of the model to its writer, after the step
] as const;

export type StepTaskName = (typeof stepTasks)[number];

export type StepChannel = ChannelName | "gradients";

export interface StepTask {
  readonly name: StepTaskName;
  /** The step that the task serves: so many after the one that the device computes. */
  readonly ahead: number;
  readonly waits: readonly StepChannel[];
  readonly rounds: readonly StepChannel[];
  /** `gradients` once for each bucket. */
  readonly sends: readonly StepChannel[];
}

/** A place of a task in the program. */
export interface StepPlace extends StepTask {
  /**
   * Whether the task runs here only if it needs no wait: for the first step that lacks it, then for
   * later steps, up to `ahead` steps ahead. A task runs once per step, at the first place where it
   * can run.
   */
  readonly isEager: boolean;
}

/** Which messages the tables of a read send; see `Read`. */
interface ReadFacts {
  readonly hasVectors: boolean;
  readonly hasRows: boolean;
  /** Whether hosts add vectors up for other hosts. */
  readonly hasHostSums: boolean;
}

/** Passes over blocks of the network. */
type DensePass = "forwardEarly" | "forwardLate" | "backwardLate" | "backwardEarly";

/** The facts on which the tasks depend; equal on all devices of a generation. */
export interface StepFacts {
  readonly depth: PipelineSpec["depth"];
  /** Steps with rows that are prefetched, or read ahead, while a step computes. */
  readonly prefetch: number;
  readonly isStale: boolean;
  readonly isAhead: boolean;
  readonly fresh: ReadFacts;
  readonly stale: ReadFacts;
  readonly hasBagLengths: boolean;
  readonly hasReplicas: boolean;
  readonly hasHostSums: boolean;
  readonly hasRowGradients: boolean;
  /** Rounds of sums over rows that are split by columns. */
  readonly rowSums: number;
  /** Rounds of sums over the batch. */
  readonly statistics: Readonly<Record<DensePass, number>>;
  /** Buckets of the dense gradient that are ready after a pass. */
  readonly buckets: Readonly<Record<"backwardLate" | "backwardEarly", number>>;
}

/**
 * The tasks of a step in the steady state, in order, where no device is late: each at the first of
 * its places.
 */
export function stepGraph(facts: StepFacts): StepTask[] {
  const places = stepPlaces(facts);
  const firstOf = new Map<string, StepPlace>();
  for (const place of places) {
    const first = firstOf.get(place.name);
    if (first === undefined || place.ahead > first.ahead) firstOf.set(place.name, place);
  }
  return places.flatMap((place) => {
    const { isEager: _, ...task } = place;
    return firstOf.get(place.name) === place ? task : [];
  });
}

/** The places of all tasks in a step, in the order of the program (step.ts, pipeline.ts). */
export function stepPlaces(facts: StepFacts): StepPlace[] {
  const { depth, prefetch, fresh, stale, isStale, isAhead, statistics, buckets } = facts;
  const isReadEarly = isStale || isAhead;
  const readChannels = (read: ReadFacts, vectors: StepChannel, rows: StepChannel) => [
    ...only(read.hasVectors, vectors),
    ...only(read.hasRows, rows),
  ];
  const [freshSent, staleSent] = [
    readChannels(fresh, "pooled", "rows"),
    readChannels(stale, "stalePooled", "staleRows"),
  ];
  const stalePartials = only(stale.hasVectors && stale.hasHostSums, "stalePartials");
  const partials = only(fresh.hasVectors && fresh.hasHostSums, "partials");
  const bagLengths = only(facts.hasBagLengths, "bagLengths");
  const deferred = only(isAhead, "deferred");
  /**
   * Sends the bags of a later step: it needs the room that receiving an earlier step's bags frees.
   */
  const begin = (ahead: number) => [
    taskOf("batch", { ahead }),
    taskOf("ids", { ahead, sends: ["ids"] }),
  ];
  const goAhead = (): StepPlace[] => {
    const staged = taskOf("receiveIds", { ahead: prefetch, waits: ["ids"] });
    const all = depth < 3 ? [] : [...(prefetch > 0 ? [staged] : []), ...begin(prefetch + 1)];
    return all.map((task) => ({ ...task, isEager: true }));
  };
  const arrive = (ahead: number) => [
    taskOf("receiveIds", { ahead, waits: ["ids"] }),
    taskOf("tiers", { ahead }),
  ];
  const sent = [...deferred, ...bagLengths, ...freshSent];
  const readAhead = isReadEarly
    ? [
        ...begin(1),
        ...arrive(1),
        taskOf("lookupAhead", { ahead: 1, rounds: stalePartials, sends: staleSent }),
      ]
    : [];
  return [
    ...(isReadEarly ? [] : begin(0)),
    ...(isReadEarly ? [] : arrive(0)),
    ...(isAhead ? [] : [taskOf("lookup", { rounds: partials, sends: sent })]),
    ...(facts.hasReplicas ? [taskOf("lookupReplicas", {})] : []),
    taskOf("forwardEarly", { rounds: times(statistics.forwardEarly, "statistics") }),
    ...goAhead(),
    taskOf("receiveReads", {
      waits: [
        ...deferred,
        ...only(stale.hasRows, "staleRows"),
        ...only(fresh.hasRows, "rows"),
        ...bagLengths,
        ...only(stale.hasVectors, "stalePooled"),
        ...only(fresh.hasVectors, "pooled"),
      ],
    }),
    ...(isStale ? [] : readAhead),
    taskOf("forwardLate", { rounds: times(statistics.forwardLate, "statistics") }),
    taskOf("backwardLate", {
      rounds: times(statistics.backwardLate, "statistics"),
      sends: times(buckets.backwardLate, "gradients"),
    }),
    taskOf("sendGradients", { sends: ["dPooled", ...only(facts.hasRowGradients, "dRows")] }),
    taskOf("backwardEarly", {
      rounds: times(statistics.backwardEarly, "statistics"),
      sends: [...times(buckets.backwardEarly, "gradients"), "losses"],
    }),
    ...goAhead(),
    ...(isStale ? readAhead : []),
    taskOf("receiveGradients", {
      waits: ["dPooled", ...only(facts.hasRowGradients, "dRows")],
      rounds: only(facts.hasHostSums, "dPartials"),
    }),
    taskOf("updateRows", { rounds: times(facts.rowSums, "rowSums") }),
    ...(isAhead ? [taskOf("lookupRest", { ahead: 1, rounds: partials, sends: sent })] : []),
    taskOf("allReduce", { waits: ["gradients"] }),
    taskOf("updateDense", {}),
    taskOf("losses", { waits: ["losses"] }),
  ];
}

/** The facts of a job's steps. `sparse`: the optimizer of rows. */
export function stepFactsOf(
  topology: Topology,
  { depth, sparse }: { readonly depth: PipelineSpec["depth"]; readonly sparse: SparseKind },
): StepFacts {
  const { graph, reads, readyAfter, buckets, input } = topology;
  const { fresh, stale, isStale, isAhead } = reads;
  const readFacts = (read: Read): ReadFacts => ({
    ...{ hasVectors: read.hasVectors, hasRows: read.hasRows },
    hasHostSums: addsOnHosts(read),
  });
  const roundsIn = (isEarly: boolean, isBackward: boolean) =>
    graph.nodes.filter((node) => {
      const isRun = node.isEarly === isEarly && (!isBackward || node.needsGradient);
      return isRun && (node.batchSums ?? 0) > 0;
    }).length;
  const readyLate = backwardOrder(graph).reduce((ready, node) => {
    return graph.nodes[node]?.isEarly === true ? ready : Math.max(ready, readyAfter[node] ?? 0);
  }, 0);
  const { hasGaps = false } = input.targets ?? {};
  return {
    ...{ depth, prefetch: depth === 3 ? prefetchOf(topology) : 0, isStale, isAhead },
    ...{ fresh: readFacts(fresh), stale: readFacts(stale) },
    hasBagLengths: topology.countedLookups.length > 0,
    hasReplicas: topology.replicated.length > 0,
    hasHostSums: addsOnHosts(topology),
    hasRowGradients: topology.distinctBy.some((shards) => shards.length > 0),
    rowSums: rowSumRounds(topology, sparse),
    statistics: {
      forwardEarly: roundsIn(true, false),
      forwardLate: roundsIn(false, false) + (hasGaps ? 1 : 0), // The labels are counted, too.
      backwardLate: roundsIn(false, true),
      backwardEarly: roundsIn(true, true),
    },
    buckets: { backwardLate: readyLate, backwardEarly: buckets.length - readyLate },
  };
}

type SparseKind = SparseOptimizerSpec["kind"];

function taskOf(
  name: StepTaskName,
  { ahead = 0, waits = [], rounds = [], sends = [] }: Partial<Omit<StepTask, "name">>,
): StepPlace {
  return { name, ahead, waits, rounds, sends, isEager: false };
}

function only(isUsed: boolean, channel: StepChannel): StepChannel[] {
  return isUsed ? [channel] : [];
}

function times(count: number, channel: StepChannel): StepChannel[] {
  return new Array<StepChannel>(count).fill(channel);
}
