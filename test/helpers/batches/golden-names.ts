// The names that parameters of goldens have in Osiris.

/** A golden's parameter under its name in Osiris. */
export interface Renamed {
  readonly name: string;
  /** Whether Osiris stores it transposed. */
  readonly isTransposed: boolean;
}

/**
 * Patterns of a Wukong's parameters; a golden's MLP counts its ReLUs as layers, Osiris does not.
 */
const patterns: readonly [RegExp, (...parts: string[]) => string][] = [
  [/^wk\.P\.l(\d+)_Y$/, (layer) => `layers.${layer}.rank.weight`],
  [/^wk\.P\.l(\d+)_WL$/, (layer) => `layers.${layer}.compress.weight`],
  [/^wk\.P\.l(\d+)_WR$/, (layer) => `layers.${layer}.residual.weight`],
  [/^wk\.fm_ln\.(\d+)\.(.*)$/, (layer, part) => `layers.${layer}.interact.norm.${part}`],
  [
    /^wk\.fm_mlp\.(\d+)\.(\d+)\.(.*)$/,
    (layer, at, part) => {
      return `layers.${layer}.interact.${Number(at) / 2}.${part}`;
    },
  ],
  [/^wk\.ln\.(\d+)\.(.*)$/, (layer, part) => `layers.${layer}.norm.${part}`],
  [/^wk\.final\.(\d+)\.(.*)$/, (at, part) => `top.${Number(at) / 2}.${part}`],
];

/** The name in Osiris of a golden's tensor: `init/wk.P.l0_Y` is `init/layers.0.rank.weight`. */
export function renamed(key: string): Renamed {
  const at = key.lastIndexOf("/") + 1;
  const own = key.slice(at);
  for (const [pattern, rename] of patterns) {
    const match = pattern.exec(own);
    if (match === null) continue;
    return { name: key.slice(0, at) + rename(...match.slice(1)), isTransposed: own.endsWith("_Y") };
  }
  return { name: key, isTransposed: false };
}
