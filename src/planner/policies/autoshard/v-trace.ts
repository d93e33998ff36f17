// V-trace (Espeholt et al., "IMPALA", ICML 2018, section 4.1): what the states of an episode are
// worth to a policy, where an older one played it. Rewards are not discounted.

export interface Trace {
  /** Values of the states, as the policy's network says them. */
  readonly values: ArrayLike<number>;
  /** Reward of each step. */
  readonly rewards: ArrayLike<number>;
  /** Probability of each choice: the policy's over that of the one that played. */
  readonly ratios: ArrayLike<number>;
  /** Value of the state behind the last step; 0 where the episode ends with it. */
  readonly last: number;
}

export interface TraceTargets {
  /** v: what the values are to become. */
  readonly values: Float64Array;
  /** By how much a choice is better than its state: its weight in the policy's gradient. */
  readonly advantages: Float64Array;
}

/** Both of an episode; ratios above 1 count as 1. */
export function vTrace({ values, rewards, ratios, last }: Trace): TraceTargets {
  const targets = new Float64Array(values.length);
  const advantages = new Float64Array(values.length);
  let next = { target: last, value: last };
  for (let step = values.length - 1; step >= 0; step--) {
    const value = values[step] ?? 0;
    const reward = rewards[step] ?? 0;
    const ratio = Math.min(1, ratios[step] ?? 0);
    advantages[step] = ratio * (reward + next.target - value);
    const delta = ratio * (reward + next.value - value);
    const target = value + delta + ratio * (next.target - next.value);
    targets[step] = target;
    next = { target, value };
  }
  return { values: targets, advantages };
}
