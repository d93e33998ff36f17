// The functions that build `model` of a job, one for each kind in the schema.

import test from "ava";
import type { ModelOptions } from "../../index.ts";
import * as osiris from "../../index.ts";
import { wholeJobSchema } from "../helpers/job-json-schema.ts";

type Builder = (options: object) => ModelOptions;
type Kinds = { readonly [Kind in ModelOptions["kind"]]: unknown };
// A kind without its function is also a compiler error.
const builders: Kinds = osiris;

interface Section {
  readonly properties: Readonly<Record<string, Section>>;
  readonly oneOf: readonly Section[];
  readonly const: keyof Kinds;
}

test("every kind of model has a function that returns its options with the kind", (t) => {
  const { model } = (wholeJobSchema() as Section).properties;
  const kinds = model?.oneOf.map(({ properties }) => properties.kind?.const) ?? [];
  t.is(kinds.length, 20);
  const options = { dense: 3, top: [8, 1] };
  for (const kind of kinds as (keyof Kinds)[]) {
    const builder = builders[kind] as Builder | undefined;
    t.deepEqual(builder?.(options), { kind, ...options } as unknown as ModelOptions, kind);
  }
});

test("the functions accept only the options of their kind", (t) => {
  const { dcnV2, lr } = osiris;
  const tables = [{ name: "a", rows: 9, dim: 4 }] as const;
  const model = { kind: "dcnV2", tables, crossLayers: 2, top: [4, 1] } as const;
  const same: ModelOptions = dcnV2({ tables, crossLayers: 2, top: [4, 1] });
  t.deepEqual(same, model);
  // @ts-expect-error: logistic regression has no layers.
  t.is(lr({ tables, top: [1] }).kind, "lr");
});
