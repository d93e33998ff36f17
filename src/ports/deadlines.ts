// All deadlines of a run, derived from one number, the step deadline (law 5). All waits use them;
// `osiris doctor` prints the tree.

/** One deadline of the tree. */
interface Rule {
  /** The enclosing deadline; undefined: a root of the tree. */
  readonly within: string | undefined;
  /** The waiting actor and the awaited event, for display. */
  readonly what: string;
  /** Length, in step deadlines. */
  readonly share: number;
  /** Upper limit in milliseconds, if there is one. */
  readonly msMax?: number;
}

const rules = {
  step: {
    within: undefined,
    what: "a device waits for a device, a batch or rows below memory; a host for its release",
    share: 1,
  },
  noted: {
    within: "step",
    what: "a thread records a wait in the wait graph",
    share: 1 / 8,
    msMax: 250,
  },
  bridgeSilence: {
    within: "step",
    what: "a bridge receives nothing from another host",
    share: 1 / 2,
  },
  bridgeReceipt: {
    within: "bridgeSilence",
    what: "a bridge sends a receipt, also as a sign of life",
    share: 1 / 8,
  },
  bridgeResend: {
    within: "bridgeReceipt",
    what: "a bridge sends a frame again",
    share: 1 / 8,
    msMax: 250,
  },
  link: {
    within: "bridgeSilence",
    what: "a direct link between hosts opens, or acknowledges a frame; else the broker is used",
    share: 1 / 8,
    msMax: 2000,
  },
  bridgeTick: {
    within: "bridgeResend",
    what: "a bridge checks its links",
    share: 1 / 32,
    msMax: 50,
  },
  split: { within: "step", what: "a reader waits for a split of the workers", share: 3 / 4 },
  resend: {
    within: "split",
    what: "a split that is still wanted is made again",
    share: 1 / 16,
    msMax: 2000,
  },
  shelf: {
    within: "split",
    what: "a preprocessing worker waits for room for a reader of its host",
    share: 1 / 16,
    msMax: 2000,
  },
  parameters: {
    within: "step",
    what: "a trainer waits for a parameter server (mode: async)",
    share: 3 / 4,
  },
  parametersAgain: {
    within: "parameters",
    what: "a trainer repeats a request to a parameter server",
    share: 1 / 16,
    msMax: 2000,
  },
  drain: { within: "step", what: "a reader that is drained finishes its batch", share: 1 / 4 },
  disk: { within: "step", what: "a tier or a writer waits for room on a full disk", share: 1 / 2 },
  diskSlow: { within: "disk", what: "a tier reports that its disk is slow", share: 1 / 10 },
  stall: { within: undefined, what: "the coordinator waits for the next step", share: 2 },
  index: {
    within: undefined,
    what: "a run that has begun waits for a sign of progress of the index of its next files",
    share: 20,
  },
  planning: {
    within: undefined,
    what: "the first host waits for a plan of the tables",
    share: 1,
    msMax: 20_000,
  },
  assembly: { within: undefined, what: "hosts make a generation and restore it", share: 10 },
  rowsFree: {
    within: "assembly",
    what: "a device's thread waits for the exit of the thread that had its rows",
    share: 1,
  },
  cut: {
    within: undefined,
    what: "the training coordinator waits until a cut is taken",
    share: 20,
  },
  taken: {
    within: "cut",
    what: "the checkpoint coordinator waits until the devices took a cut",
    share: 10,
  },
  saved: { within: undefined, what: "writers write a cut to the disk", share: 60 },
  evaluation: { within: undefined, what: "devices evaluate a cut", share: 60 },
  persist: { within: undefined, what: "tiers persist durable rows", share: 10 },
} as const satisfies Record<string, Rule>;

/** Longest time in which hosts measure the links between them, in milliseconds. */
export const linksMs = 10_000;

/** Heartbeat interval of a cluster's hosts, in milliseconds. */
export const beatMs = 250;

/** Default silence after which a host is lost, in milliseconds (`--host-silence`). */
export const usualHostSilenceMs = 1250;

/** Factor on this silence while the host makes and restores a generation. */
export const assemblingSilences = 4;

export type DeadlineName = keyof typeof rules;

/** The deadlines of a run, in milliseconds. */
export type Deadlines = Readonly<Record<DeadlineName, number>>;

/** @param stepDeadlineMs the job's step deadline */
export function deadlinesOf({ stepDeadlineMs }: { readonly stepDeadlineMs: number }): Deadlines {
  const of = ({ share, msMax = Number.POSITIVE_INFINITY }: Rule) =>
    Math.min(msMax, share * stepDeadlineMs);
  const entries = Object.entries<Rule>(rules).map(([name, rule]) => [name, of(rule)]);
  return Object.fromEntries(entries) as Deadlines;
}

/** Assumed least bandwidth of stores, disks and networks, for deadlines of transfers. */
const slowestBytesPerSecond = 20e6;

/**
 * The time by which a deadline is extended for a transfer of `bytes` bytes, so that a large one is
 * not taken for a hang. A real hang is detected earlier, by missing heartbeats.
 */
export function transferMs(bytes: number): number {
  return (1000 * bytes) / slowestBytesPerSecond;
}

/** One deadline for display. */
export interface DeadlineLine {
  readonly name: string;
  readonly within: string | undefined;
  readonly what: string;
  readonly ms: number;
}

/** The deadlines of a cluster with default options, which do not depend on a job. */
export function clusterDeadlines(): DeadlineLine[] {
  const silence = usualHostSilenceMs;
  return [
    { name: "heartbeat", within: undefined, what: "a host sends a heartbeat", ms: beatMs },
    {
      name: "hostSilence",
      within: undefined,
      what: "a host without a heartbeat counts as lost (--host-silence)",
      ms: silence,
    },
    {
      name: "hostAssembling",
      within: undefined,
      what: "the same, while the host assembles and restores a generation",
      ms: assemblingSilences * silence,
    },
    {
      name: "hostTraining",
      within: "hostSilence",
      what: "the same, while a run trains on the host",
      ms: silence - beatMs,
    },
    { name: "lease", within: undefined, what: "another leader takes over", ms: 2500 },
    {
      name: "links",
      within: undefined,
      what: "hosts measure the links between them, before their first plan",
      ms: linksMs,
    },
    { name: "join", within: undefined, what: "a run waits for its devices", ms: 60_000 },
  ];
}

/** The tree of a job's deadlines, each after its enclosing deadline. */
export function deadlineTree(job: { readonly stepDeadlineMs: number }): DeadlineLine[] {
  const ms = deadlinesOf(job);
  const names = Object.keys(rules) as DeadlineName[];
  return names.map((name) => {
    const { within, what } = rules[name] satisfies Rule;
    return { name, within, what, ms: ms[name] };
  });
}
