// Recordings of kernels' calls. A call is recorded after its arguments were checked and listed for
// the addon, so that a replay neither checks nor lists them again. A step makes the same calls as
// the step before; on small batches, preparing them takes longer than many of them run.

import type { Arguments } from "./describe.ts";

export type Call = (...given: Arguments) => unknown;

export interface Recorder {
  /** Calls a kernel, and records the call if a recording runs. */
  note(call: Call, given: Arguments): unknown;
  /** As of the kernels. */
  recorded(work: () => void): (() => void) | undefined;
}

export function createRecorder(): Recorder {
  let running:
    | { readonly calls: Call[]; readonly lists: Arguments[]; isWhole: boolean }
    | undefined;
  return {
    note(call, given) {
      const answer = call(...given);
      if (running === undefined) return answer;
      running.calls.push(call);
      running.lists.push(given);
      running.isWhole &&= answer === undefined;
      return answer;
    },

    recorded(work) {
      if (running !== undefined) throw new Error("A recording of kernels' calls already runs");
      const own = { calls: [] as Call[], lists: [] as Arguments[], isWhole: true };
      running = own;
      try {
        work();
      } finally {
        running = undefined;
      }
      if (!own.isWhole) return undefined;
      const { calls, lists } = own;
      return () => {
        for (let i = 0; i < calls.length; i++) calls[i]!(...lists[i]!);
      };
    },
  };
}
