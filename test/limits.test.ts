// docs/limits.md against the schemas of options: each maximum has a row with its number, and the
// README repeats no other numbers.

import test from "ava";
import { z } from "zod";
import { clusterOptions } from "../actors/cluster/cluster-options.ts";
import { serverJsonSchema } from "../packages/serve/server/models/server-options.ts";
import { wholeJobSchema } from "./helpers/job-json-schema.ts";
import { textOf } from "./helpers/tree.ts";

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly items?: Schema;
  readonly oneOf?: readonly Schema[];
  readonly anyOf?: readonly Schema[];
  readonly additionalProperties?: Schema | false;
  readonly maximum?: number;
  readonly maxItems?: number;
}

interface Limit {
  /** Path of the option, such as `model.tables[].dim`. */
  readonly option: string;
  readonly most: number;
}

/** The maxima of options below `schema`. Shares, at most 1, have no row. */
function* limitsOf(schema: Schema, option: string): Generator<Limit> {
  for (const most of [schema.maximum, schema.maxItems]) {
    if (most !== undefined && most > 1 && most < Number.MAX_SAFE_INTEGER) yield { option, most };
  }
  for (const branch of [...(schema.oneOf ?? []), ...(schema.anyOf ?? [])]) {
    yield* limitsOf(branch, option);
  }
  if (schema.items) yield* limitsOf(schema.items, `${option}[]`);
  if (schema.additionalProperties) yield* limitsOf(schema.additionalProperties, `${option}.NAME`);
  for (const [name, inner] of Object.entries(schema.properties ?? {})) {
    yield* limitsOf(inner, option === "" ? name : `${option}.${name}`);
  }
}

interface Row {
  readonly names: (option: string) => boolean;
  readonly numbers: ReadonlySet<number>;
}

/** The rows of docs/limits.md whose first cell names options; `*` stands for any characters. */
function rowsOf(page: string): Row[] {
  return [...page.matchAll(/^\| ([^|]+) \| ([^|]+) \|/gm)].map(([, first = "", second = ""]) => {
    const patterns = [...first.matchAll(/`([^`]+)`/g)].map(([, name = ""]) => {
      const literal = name.replace(/[.[\]]/g, "\\$&").replaceAll("*", ".*");
      return new RegExp(`^${literal}$`);
    });
    return {
      names: (option) => patterns.some((pattern) => pattern.test(option)),
      numbers: new Set(numbersIn(second)),
    };
  });
}

/** The numbers in a text: `65,536`, `2³¹ - 1` and the like. */
function numbersIn(text: string): number[] {
  const found = text.matchAll(/2([⁰¹²³⁴-⁹]+)( - 1)?|\d[\d,]*/g);
  return [...found].map(([whole, power, lessOne]) => {
    if (power === undefined) return Number(whole.replaceAll(",", ""));
    const exponent = [...power].map((digit) => "⁰¹²³⁴⁵⁶⁷⁸⁹".indexOf(digit)).join("");
    return 2 ** Number(exponent) - (lessOne === undefined ? 0 : 1);
  });
}

test("docs/limits.md has a row for each maximum of an option, with its number", (t) => {
  const rows = rowsOf(textOf("docs/limits.md"));
  const cluster = z.toJSONSchema(clusterOptions, { io: "input", unrepresentable: "any" });
  const limits = [
    ...limitsOf(wholeJobSchema() as Schema, ""),
    ...limitsOf(cluster as Schema, "Cluster.start"),
    ...limitsOf(serverJsonSchema() as Schema, "serve"),
  ];
  // `osiris plan` writes plans, so users need no limits for them; the other two repeat options.
  const repeated = /^(plan|model\.table|evaluation\.(test\.)?data)\./;
  const missing = limits
    .filter(({ option }) => !repeated.test(option))
    .filter(
      ({ option, most }) => !rows.some(({ names, numbers }) => names(option) && numbers.has(most)),
    )
    .map(({ option, most }) => `${option}: ${most}`);
  t.deepEqual([...new Set(missing)], []);
});

test("each number of the README's first limit stands in docs/limits.md", (t) => {
  const [, limit = ""] = /^## Limits\n\n- (.*?)\n- /ms.exec(textOf("README.md")) ?? [];
  const page = new Set(numbersIn(textOf("docs/limits.md")));
  const numbers = numbersIn(limit);
  t.true(numbers.length > 3);
  t.deepEqual(
    numbers.filter((number) => !page.has(number)),
    [],
  );
});
