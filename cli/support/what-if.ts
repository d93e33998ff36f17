// Expands the changes of `osiris plan --what-if` to options of the job: `dim=64` gives every table
// 64 columns, and every layer that must be as wide.

import { InvalidOptionError, type JobOptions } from "../../internal.ts";

/** The parts of a model that the changes concern. */
interface AskedModel {
  readonly table?: unknown;
  readonly tables?: readonly unknown[];
  readonly bottom?: readonly number[];
  readonly dim?: number;
}

/**
 * The change as values of the job's options, each as `--set` takes it.
 * @throws InvalidOptionError where it has no value
 */
export function changesOf({ model }: JobOptions, question: string): string[] {
  const [name = "", value] = question.split(/=(.*)/s);
  if (value === undefined || name === "" || value === "") {
    const message = `Expected \`--what-if\` to be OPTION=VALUE, as dim=64, got \`${question}\``;
    throw new InvalidOptionError("--what-if", message);
  }
  const { table, tables = [], bottom = [], dim } = model as AskedModel;
  const ofTables = (option: string) => [
    ...(table === undefined ? [] : [`model.table.${option}=${value}`]),
    ...(tables.length === 0 ? [] : [`model.tables[].${option}=${value}`]),
  ];
  switch (name) {
    case "dim":
      return [
        ...ofTables("dim"),
        ...(dim === undefined ? [] : [`model.dim=${value}`]),
        ...(bottom.length === 0 ? [] : [`model.bottom[${bottom.length - 1}]=${value}`]),
      ];
    case "rows":
    case "precision":
    case "sharding":
      return ofTables(name);
    case "batchSize":
      return [`data.batchSize=${value}`];
    default:
      return [question];
  }
}
