// V-trace (Espeholt et al., "IMPALA", ICML 2018, section 4.1): off-policy value targets for the
// states of an episode that an older policy played. Rewards are not discounted.

export interface Trace {
  /** Values of the states, as predicted by the policy's network. */
  readonly values: ArrayLike<number>;
  /** Reward of each step. */
  readonly rewards: ArrayLike<number>;
  /**
   * Importance ratio of each choice: its probability under the policy over that under the policy
   * that played.
   */
  readonly ratios: ArrayLike<number>;
  /** Value of the state after the last step; 0 if the episode ends there. */
  readonly last: number;
}

export interface TraceTargets {
  /** v: the targets of the values. */
  readonly values: Float64Array;
  /** Advantage of each choice over the value of its state: its weight in the policy's gradient. */
  readonly advantages: Float64Array;
}

/** Computes the targets of one episode; ratios are clipped at 1. */
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
