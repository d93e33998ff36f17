// Options of deduplicated lists: which features share them, and from which repetition on they are
// worthwhile (ikjt.ts).

import { z } from "zod";
import { visibleName } from "../column-name-options.ts";

const groups = z
  .union([z.literal("auto"), z.array(z.array(visibleName).min(1).max(4096)).min(1).max(1024)])
  .describe(
    "Lists of feature names, each a group whose lists are deduplicated together; `auto`: features that repeat, those together that change together.",
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
      .describe("Lists for each distinct list, at least: groups with fewer are left as they are."),
    aligned: z
      .boolean()
      .default(false)
      .describe(
        'Whether the lists of a group are equally long in each sample, as ids and their times are: all samples are read once, and the first one whose lists are not is named, with its file; not for `"auto"`.',
      ),
  })
  .refine(({ groups: own, aligned }) => !aligned || own !== "auto", {
    path: ["aligned"],
    error: "groups of names, as groups that are found are told to have nothing in common",
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
