// What limits a step: the shared resource that is busy for the largest part of it, or the work or
// wait that fills the largest part of the slowest device.

import type { SimulatedSteps } from "../model.ts";

/** The kind of work of each task, as the report names it. */
const works: Readonly<Record<string, string>> = {
  batch: "reading",
  ids: "ids",
  tiers: "rows below device memory",
  lookup: "lookup and update of rows",
  lookupAhead: "lookup and update of rows",
  lookupRest: "lookup and update of rows",
  lookupReplicas: "lookup and update of rows",
  updateRows: "lookup and update of rows",
  forwardEarly: "dense layers",
  forwardLate: "dense layers",
  backwardLate: "dense layers",
  backwardEarly: "dense layers",
  updateDense: "dense layers",
};

/** Names of shared resources for people. */
const resources: Readonly<Record<string, string>> = {
  hostMemory: "memory of hosts",
  hostLink: "link to the host",
  scaleUp: "scale-up links",
  scaleOut: "scale-out links",
};

/** Cores that are busy for a smaller share do not limit the step. */
const busyCores = 0.95;

export function bottleneckOf({ step, byTask, busy, exposed }: SimulatedSteps) {
  const seconds = new Map<string, number>();
  const add = (name: string, own: number) => seconds.set(name, (seconds.get(name) ?? 0) + own);
  for (const [task, taskSeconds] of Object.entries(byTask)) add(works[task] ?? task, taskSeconds);
  for (const [what, waited] of Object.entries(exposed)) add(`waiting for ${what}`, waited);
  for (const [resource, busySeconds] of Object.entries(busy)) {
    if (resource !== "cores" || busySeconds > busyCores * step)
      add(resources[resource] ?? resource, busySeconds);
  }
  const [name, most] = [...seconds].sort((a, b) => b[1] - a[1])[0] ?? ["nothing", 0];
  return { name, share: most / step };
}
