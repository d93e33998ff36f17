// Checks groups of lists that must be equally long in each sample (`data.ikjt.aligned`), such as
// ids and their times. Lists of different lengths are a fault of the data, so training must not
// start.

import { InputUnusableError } from "../../errors/errors.ts";
import { type Dataset, memoryFor } from "../dataset.ts";
import type { IkjtSpec } from "./ikjt-options.ts";
import type { NamedSamples } from "./session-splits.ts";

/** Samples read at a time. */
const chunk = 4096;

/**
 * Reads and checks all samples, if `aligned` is set. `features`: names of the features, in order.
 * @throws InputUnusableError naming the first sample whose lists differ in length, and both lists
 */
export async function checkAligned(
  dataset: Dataset,
  { groups, aligned }: IkjtSpec,
  features: readonly string[],
  { path, placeOf }: Omit<NamedSamples, "column">,
): Promise<void> {
  if (!aligned || groups === "auto") return;
  const places = groups.map((names) => names.map((name) => features.indexOf(name)));
  const batch = memoryFor(dataset, Math.min(chunk, dataset.samples));
  for (let first = 0; first < dataset.samples; first += chunk) {
    const count = Math.min(chunk, dataset.samples - first);
    await dataset.hold([{ first, end: first + count }], []);
    const indices = Uint32Array.from({ length: count }, (_, i) => first + i);
    dataset.read(indices, batch);
    for (const [group, own] of places.entries()) {
      const [head = 0, ...others] = own;
      for (let b = 0; b < count; b++) {
        const length = batch.lengths[head * count + b] ?? 0;
        const other = others.find((feature) => batch.lengths[feature * count + b] !== length);
        if (other === undefined) continue;
        const place =
          placeOf(first + b) ?? `sample ${first + b} (of those that are trained, from 0)`;
        const lists = [head, other].map((feature) => {
          return `${batch.lengths[feature * count + b]} of \`${features[feature]}\``;
        });
        const message =
          `\`data.ikjt.groups[${group}]\` has lists of one length, and ${place} has ${lists.join(" and ")}: ` +
          "mend the data, or leave `aligned` out";
        throw new InputUnusableError(path, message);
      }
    }
  }
}
