// Recognises by tensor names which program wrote a state dict, and strips the prefixes of wrappers:
// `model.` of DLRMTrain, `module.` of DataParallel and DistributedDataParallel, `_orig_mod.` of
// torch.compile.

import type { ForeignKind } from "./counterpart.ts";

/** The program that wrote a state dict: one of counterpart.ts, or Osiris itself. */
export type NamesKind = ForeignKind | "osiris";

export const namesKinds: readonly NamesKind[] = ["dlrm", "torchrec", "osiris"];

/** Tensor names without wrapper prefixes, mapped to the names in the file. */
export interface Recognised {
  readonly kind: NamesKind;
  readonly names: ReadonlyMap<string, string>;
}

const roots: Readonly<Record<NamesKind, RegExp>> = {
  dlrm: /(?:^|\.)((?:emb_l|bot_l|top_l|v_W_l)\..+)$/,
  torchrec: /(?:^|\.)((?:sparse_arch|dense_arch|inter_arch|over_arch)\..+)$/,
  osiris: /^(.+)$/,
};
const wrapper = /(?<=^|\.)(?:module|_orig_mod)\./g;

/** The program that wrote a state dict with these names; undefined: an unknown program. */
export function recognise(names: readonly string[]): NamesKind | undefined {
  if (names.some((name) => /(?:^|\.)emb_l\.\d+\./.test(name))) return "dlrm";
  if (names.some((name) => roots.torchrec.test(name))) return "torchrec";
  return names.some((name) => /^embedding_bags\..+\.weight$/.test(name)) ? "osiris" : undefined;
}

/**
 * Strips wrapper prefixes off a program's names. A name that does not match the program's form is
 * kept unchanged.
 */
export function unwrapped(kind: NamesKind, names: readonly string[]): Recognised {
  const own = new Map<string, string>();
  for (const name of names) {
    const found = roots[kind].exec(name)?.[1] ?? name;
    const plain = kind === "dlrm" ? found.replaceAll(wrapper, "") : found;
    own.set(own.has(plain) ? name : plain, name);
  }
  return { kind, names: own };
}
