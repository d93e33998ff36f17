// `npm test -- --profile`: the processor time of the tests, by file and by cause. Each test file
// then runs in its own process, because Linux counts processor time by process; this module is
// loaded in each of them and notes the counts when the process ends.

import childProcess from "node:child_process";
import { readFileSync } from "node:fs";
import { syncBuiltinESMExports } from "node:module";
import workerThreads from "node:worker_threads";
import type { FileCost, Note } from "./notes.ts";

export const profileVariable = "OSIRIS_TEST_PROFILE";

const ticksPerSecond = 100; // USER_HZ, which Linux fixes for /proc.
const rowsMax = 40;

/** Begins to count; the returned function is called at the end of the process. */
export function beginProfile(): () => FileCost {
  const started = { threads: 0, processes: 0 };
  const Worker = workerThreads.Worker;
  workerThreads.Worker = class extends Worker {
    constructor(...args: ConstructorParameters<typeof Worker>) {
      super(...args);
      started.threads++;
    }
  };
  for (const name of ["spawn", "spawnSync", "execFile", "execFileSync", "fork"] as const) {
    const original = childProcess[name] as (...args: unknown[]) => unknown;
    const counted = (...args: unknown[]) => {
      started.processes++;
      return original(...args);
    };
    // `promisify(execFile)` uses a custom form that the function carries as a property.
    const own = Object.getOwnPropertyDescriptors(original);
    Object.assign(childProcess, { [name]: Object.defineProperties(counted, own) });
  }
  syncBuiltinESMExports();
  // A file declares its tests once its imports are loaded; AVA then sends their titles.
  let loading = 0;
  const send = process.send?.bind(process);
  process.send = (message: unknown, ...rest: []) => {
    const event = (message as { ava?: { type?: string } } | null)?.ava;
    if (event?.type === "declared-test") loading = processSeconds().own;
    return send?.(message, ...rest) ?? false;
  };
  return () => {
    const { own, main, children } = processSeconds();
    return {
      wall: process.uptime(),
      loading,
      tests: Math.max(0, main - loading),
      threads: Math.max(0, own - Math.max(main, loading)),
      processes: children,
      threadsStarted: started.threads,
      processesStarted: started.processes,
    };
  };
}

/** Processor seconds of this process, of its main thread, and of its ended children. */
function processSeconds(): { own: number; main: number; children: number } {
  const [user = 0, system = 0, childUser = 0, childSystem = 0] = timesOf("/proc/self/stat");
  const [mainUser = 0, mainSystem = 0] = timesOf(`/proc/self/task/${process.pid}/stat`);
  return {
    own: (user + system) / ticksPerSecond,
    main: (mainUser + mainSystem) / ticksPerSecond,
    children: (childUser + childSystem) / ticksPerSecond,
  };
}

/** utime, stime, cutime and cstime of proc_pid_stat(5). */
function timesOf(path: string): number[] {
  const stat = readFileSync(path, "latin1");
  return stat
    .slice(stat.lastIndexOf(")") + 2)
    .split(" ")
    .slice(11, 15)
    .map(Number);
}

/** The profile as a table: sums by cause, then rooms, then the most expensive files. */
export function profileOf(notes: readonly Note[]): string {
  const files = notes.flatMap((one) => (one.kind === "cost" ? [one] : []));
  const rooms = new Map<string, FileCost[]>();
  for (const { file, cost } of files) {
    const room = file.split("/").slice(0, 2).join("/");
    rooms.set(room, [...(rooms.get(room) ?? []), cost]);
  }
  const byCost = (a: FileCost, b: FileCost): number => processorOf(b) - processorOf(a);
  const roomRows = [...rooms]
    .map(([room, costs]) => ({ name: `${room} (${costs.length})`, cost: sumOf(costs) }))
    .sort((a, b) => byCost(a.cost, b.cost));
  const fileRows = files
    .map(({ file, cost }) => ({ name: file, cost }))
    .sort((a, b) => byCost(a.cost, b.cost))
    .slice(0, rowsMax);
  const heads = ["all", "loading", "tests", "threads", "processes", "waiting", "started"];
  return [
    "Processor seconds; waiting is the time in which nothing of the file was computed; started are",
    "threads + processes.",
    heads.map((head) => head.padStart(9)).join(" "),
    rowOf(`all ${files.length} files`, sumOf(files.map(({ cost }) => cost))),
    ...["", "By room:"],
    ...roomRows.map(({ name, cost }) => rowOf(name, cost)),
    ...["", "The files that cost the most:"],
    ...fileRows.map(({ name, cost }) => rowOf(name, cost)),
  ].join("\n");
}

function processorOf(cost: FileCost): number {
  return cost.loading + cost.tests + cost.threads + cost.processes;
}

function sumOf(costs: readonly FileCost[]): FileCost {
  const sum = (key: keyof FileCost): number => costs.reduce((all, cost) => all + cost[key], 0);
  return {
    wall: sum("wall"),
    loading: sum("loading"),
    tests: sum("tests"),
    threads: sum("threads"),
    processes: sum("processes"),
    threadsStarted: sum("threadsStarted"),
    processesStarted: sum("processesStarted"),
  };
}

function rowOf(name: string, cost: FileCost): string {
  const seconds = [cost.loading, cost.tests, cost.threads, cost.processes];
  const waiting = Math.max(0, cost.wall - processorOf(cost));
  const cells = [processorOf(cost), ...seconds, waiting].map((one) => one.toFixed(1).padStart(9));
  const started = `${cost.threadsStarted}+${cost.processesStarted}`.padStart(9);
  return `${cells.join(" ")} ${started}  ${name}`;
}
