// Records kernel calls. A call is recorded after its arguments were checked and converted for the
// addon, so that a replay does neither again. Successive steps make the same calls, and for small
// batches this preparation takes longer than many of the calls. The addon stores the arguments of
// adjacent calls of its functions, and repeats all of them in one call.

import type { Addon } from "../../ports/addon.ts";
import type { Arguments } from "./describe.ts";

export type Call = (...given: Arguments) => unknown;

export type Recorder = ReturnType<typeof createRecorder>;

export function createRecorder(addon: Addon | undefined) {
  const join = joiner(addon);
  let running: { readonly calls: Call[]; readonly lists: Arguments[] } | undefined;
  let isWhole = true;
  return {
    /** Calls a kernel, and records the call if a recording runs. */
    note(call: Call, given: Arguments): unknown {
      const answer = call(...given);
      if (running === undefined) return answer;
      running.calls.push(call);
      running.lists.push(given);
      isWhole &&= answer === undefined;
      return answer;
    },

    /** See `Kernels.recorded`. */
    recorded(work: () => void): (() => void) | undefined {
      if (running !== undefined) throw new Error("A recording of kernels' calls already runs");
      const own = { calls: [] as Call[], lists: [] as Arguments[] };
      [running, isWhole] = [own, true];
      try {
        work();
      } finally {
        running = undefined;
      }
      if (!isWhole) return undefined;
      const { calls, lists } = join(own.calls, own.lists);
      return () => {
        for (let i = 0; i < calls.length; i++) calls[i]!(...lists[i]!);
      };
    },
  };
}

/** Returns a function that joins each run of calls of the addon's functions into one call. */
function joiner(addon: Partial<Addon> = {}) {
  const names = Object.keys(addon.argumentCounts?.() ?? {});
  const places = new Map(names.map((name, place) => [addon[name], place]));
  return (calls: readonly Call[], lists: readonly Arguments[]) => {
    const joined = { calls: [] as Call[], lists: [] as Arguments[] };
    for (let first = 0, end = 0; first < calls.length; first = end) {
      while (end < calls.length && places.has(calls[end])) end++;
      end = Math.max(end, first + 1);
      const [own, given] = [calls.slice(first, end), lists.slice(first, end)];
      const functions = Int32Array.from(own, (call) => places.get(call) ?? 0);
      const kept = own.length > 1 ? addon.keepCalls?.(functions, given) : undefined;
      joined.calls.push(...(kept === undefined ? own : [addon.runCalls as Call]));
      // Keeps the argument lists alive, because the addon reads the memory of their arrays.
      joined.lists.push(...(kept === undefined ? given : [[kept, given]]));
    }
    return joined;
  };
}
