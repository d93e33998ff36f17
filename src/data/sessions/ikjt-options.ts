// Options of deduplicated lists: which features share them, and from which repetition on they are
// worthwhile (ikjt.ts).

import { z } from "zod";
import { visibleName } from "../column-name-options.ts";

const groups = z
  .union([z.literal("auto"), z.array(z.array(visibleName).min(1).max(4096)).min(1).max(1024)])
  .describe(
    "Groups of feature names; the lists of a group are deduplicated together. `auto`: all features whose lists repeat, grouped by which of them change together.",
  );

const section = z
  .strictObject({
    /**
     * Groups of feature names. The lists of a group are deduplicated together: samples that differ
     * in any feature of the group have different lists. `auto` groups the repeating features by
     * which of them change together.
     */
    groups,
    threshold: z
      .number()
      .min(1)
      .max(1000)
      .default(1.5)
      .describe(
        "Least mean number of lists per distinct list; a group with fewer is not deduplicated.",
      ),
    aligned: z
      .boolean()
      .default(false)
      .describe(
        '`true`: all lists of a group must be equally long within a sample, for example ids and their times. All samples are read once before training, and the first sample that violates this is an error with its file. Not allowed with `"auto"`.',
      ),
  })
  .refine(({ groups: own, aligned }) => !aligned || own !== "auto", {
    path: ["aligned"],
    error: 'groups of names, as `"auto"` does not know which lists are equally long',
  });

/** `data.ikjt`: the groups alone, or an object with a threshold. */
export const ikjtOptions = z.union([
  section,
  groups.transform((own): z.output<typeof section> => {
    return { groups: own, threshold: 1.5, aligned: false };
  }),
]);

/** The section after its checks: complete. */
export type IkjtSpec = z.output<typeof ikjtOptions>;

/** A wrong name in a group: not a feature, or a feature of another group. */
export interface WrongGroup {
  readonly group: number;
  readonly place: number;
  readonly name: string;
  readonly expected: string;
}

/** Returns the first wrong name in the groups, if any. */
export function wrongGroupIn({ groups: all }: IkjtSpec, features: readonly string[]) {
  if (all === "auto") return undefined;
  const seen = new Set<string>();
  for (const [group, own] of all.entries()) {
    for (const [place, name] of own.entries()) {
      const isKnown = features.includes(name);
      const expected = isKnown
        ? "a feature that is in no group yet"
        : `the name of a feature of the model: ${namesOf(features)}`;
      const wrong: WrongGroup = { group, place, name, expected };
      if (!isKnown || seen.has(name)) return wrong;
      seen.add(name);
    }
  }
  return undefined;
}

/** The first names, for a message. */
function namesOf(features: readonly string[]): string {
  const most = 10;
  const shown = features.slice(0, most).join(", ");
  return features.length > most ? `${shown} and ${features.length - most} more` : shown;
}
