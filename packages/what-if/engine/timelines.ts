// The spans of simulated steps as the timelines of a run: `chromeTrace` makes the same file of them
// as `osiris trace` of a real run. Flights to a device from other hosts are in the row of its
// host's bridge; a span has no sender, so that host stands for the sender.

import { flownChannels, type RunTimelines, stepTasks, waitedFor } from "../../../internal.ts";
import type { SimulatedSteps, Span } from "../model.ts";

type Thread = RunTimelines["threads"][number];
type Packed = Thread["records"][number];

/** `perHost`: devices of a host. Second 0 of the simulation is the year 1970. */
export function timelinesOf({ spans }: SimulatedSteps, perHost: number): RunTimelines {
  const hostOf = ({ rank }: Span) => Math.floor(rank / perHost);
  const hosts = [...new Set(spans.map(hostOf))].sort((a, b) => a - b);
  const threads = new Map<string, { readonly host: number; readonly records: Packed[] }>();
  for (const span of spans) {
    const [host, actor] = [hostOf(span), actorOf(span, perHost)];
    const record = recordOf(span, hosts.indexOf(host));
    const known = threads.get(actor);
    if (record === undefined) continue;
    if (known === undefined) threads.set(actor, { host, records: [record] });
    else known.records.push(record);
  }
  const steps = spans.map(({ step }) => step);
  return {
    ...{ run: "simulated", generation: 0, hosts, missing: [] },
    fromStep: Math.min(...steps),
    toStep: Math.max(...steps),
    threads: [...threads].map(([actor, own]) => ({ actor, ...own })),
  };
}

function actorOf({ kind, rank }: Span, perHost: number): string {
  return kind === "flight" ? `bridge:${Math.floor(rank / perHost)}` : `device:${rank}`;
}

/** As threads write them (src/ports/timeline.ts); undefined: bytes that stay inside a host. */
function recordOf({ kind, task, step, from, to, rank }: Span, host: number): Packed | undefined {
  const of = kind === "work" ? "task" : kind === "wait" ? "wait" : "landedDirect";
  const names: readonly string[] = {
    task: stepTasks,
    wait: waitedFor,
    landedDirect: flownChannels,
  }[of];
  const what = names.indexOf(task);
  return what < 0 ? undefined : [of, what, step, 1000 * from, 1000 * to, 0, host, rank];
}
