// Explicit-state exploration: visits every state that is reachable within a number of transitions,
// breadth first, and checks each. A violated invariant is reported with a shortest trace to it.

/** A transition as text, and the state after it. */
export interface Transition<State> {
  readonly label: string;
  readonly to: State;
}

export interface Model<State> {
  readonly initial: State;
  /** The key of a state: states with equal keys are the same. */
  keyOf(state: State): string;
  next(state: State): Promise<readonly Transition<State>[]>;
  /** The violation of an invariant in a state, if there is one. */
  violation(state: State): Promise<string | undefined>;
}

export interface Explored {
  /** States that were first reached after 0, 1, 2 … transitions. */
  readonly perDepth: readonly number[];
  /** Whether no state is left: further transitions lead to states that were visited. */
  readonly isWhole: boolean;
  readonly violation?: { readonly what: string; readonly trace: readonly string[] };
}

/** How a state was first reached. */
interface Reached<State> {
  readonly state: State;
  readonly from: Reached<State> | undefined;
  readonly label: string;
}

/** Visits all states up to this depth. Ends at the first violation. */
export async function explore<State>(model: Model<State>, depthMax: number): Promise<Explored> {
  const visited = new Set([model.keyOf(model.initial)]);
  const perDepth: number[] = [];
  let level: Reached<State>[] = [{ state: model.initial, from: undefined, label: "" }];
  for (let depth = 0; level.length > 0; depth++) {
    perDepth.push(level.length);
    const after: Reached<State>[] = [];
    for (const reached of level) {
      const what = await model.violation(reached.state);
      if (what !== undefined) {
        return { perDepth, isWhole: false, violation: { what, trace: traceOf(reached) } };
      }
      if (depth === depthMax) continue;
      for (const { label, to } of await model.next(reached.state)) {
        const key = model.keyOf(to);
        if (visited.has(key)) continue;
        visited.add(key);
        after.push({ state: to, from: reached, label });
      }
    }
    level = after;
  }
  return { perDepth, isWhole: perDepth.length <= depthMax };
}

function traceOf<State>(reached: Reached<State>): string[] {
  const trace: string[] = [];
  for (let at: Reached<State> | undefined = reached; at?.from !== undefined; at = at.from) {
    trace.push(at.label);
  }
  return trace.reverse();
}
