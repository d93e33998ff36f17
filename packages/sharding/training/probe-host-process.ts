// A host process of `probeOverHosts`: runs the threads of its devices and their bridge. It sends
// the devices' reports to its parent, and the bridge serves other hosts until the parent ends the
// process.

import { once } from "node:events";
import {
  abortCells,
  type CostProbeReport,
  type CostProbeTask,
  cellWords,
  connectNats,
  costProbeShape,
  createAtomicCells,
  createBridge,
  layoutOf,
  measureOnThread,
  realClock,
  sleepTurning,
  workerLauncher,
} from "../../../internal.ts";
import type { ProbeHost, ProbeHostNews } from "./probe-hosts.ts";

const [given] = (await once(process, "message")) as [ProbeHost];
const { host, hostOf, broker } = given;
const task = { ...given.task, hostOf };
const shape = costProbeShape(task);
const layout = layoutOf(shape);
const participants = hostOf.length + 1;
const words = new SharedArrayBuffer(4 * cellWords(participants, layout.cells));
const memory = new SharedArrayBuffer(layout.bytes);
const deadlineMs = 60_000;
const transport = await connectNats({ ...broker, name: `costs-host-${host}`, deadlineMs: 10_000 });
const end = () => abortCells(new Int32Array(words), participants);
const bridge = createBridge({
  ...{ shape, host, memory, transport, clock: realClock, deadlineMs, abort: end },
  cells: createAtomicCells({
    ...{ words: new Int32Array(words), participants, participant: hostOf.length, generation: 1 },
    ...{ deadlineMs: Number.POSITIVE_INFINITY, clock: realClock, sleep: sleepTurning },
  }),
  place: { cluster: "costs", run: "exchanges", generation: 1 },
});
const carried = bridge.run();
const lost = carried.then(
  () => "its bridge ended before its devices did",
  (error: unknown) => String(error),
);
await bridge.ready;

const measured = Promise.all(
  (layout.hosts[host] ?? []).map(async (rank) => {
    const rankTask: CostProbeTask = { ...task, program: "costs", sets: [], rank, words, memory };
    return [rank, await measureOnThread<CostProbeReport>(workerLauncher, rankTask)] as const;
  }),
).then(
  (reports): ProbeHostNews => ({ reports }),
  (error: Error): ProbeHostNews => ({ failed: error.message }),
);
const news = await Promise.race([measured, lost.then((failed): ProbeHostNews => ({ failed }))]);
process.send?.(news);
await Promise.race([once(process, "message"), once(process, "disconnect")]);
end();
await lost;
await transport.close();
process.exit(0);
