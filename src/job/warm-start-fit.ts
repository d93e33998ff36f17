// Checks that the state of an earlier run fits the job that begins with it (warm-start.ts).

import { categoricalOf, feeds } from "../data/text/match-features.ts";
import { InvalidOptionError } from "../errors/errors.ts";
import { shapesOf } from "../model/features.ts";
import { expected } from "../ports/check-options.ts";
import type { Fields } from "../ports/written.ts";
import type { JobSpec } from "./job.ts";

/** Options of tables that decide the number of rows and the stored form of a row. */
const tableOptions = ["rows", "dim", "idBits", "precision", "rowBlocks", "dynamic"] as const;

/**
 * Throws where `job` cannot continue with the state of `source`, because tables, layers or
 * optimizers differ. Learning rates, penalties and the data may differ.
 * @throws InvalidOptionError naming the option
 */
export function checkFit(source: JobSpec, job: JobSpec): void {
  const from = job.warmStart?.from;
  const compare = (option: string, mine: unknown, theirs: unknown) => {
    if (JSON.stringify(mine) === JSON.stringify(theirs)) return;
    const shown = theirs === undefined ? "left out" : JSON.stringify(theirs);
    throw expected(option, `as in the job of ${from}, which this one begins with, ${shown}`, mine);
  };
  const [mine, theirs] = [job.model, source.model];
  const names = ({ tables }: JobSpec["model"]) => tables.map(({ name }) => name);
  compare("model.tables", names(mine), names(theirs));
  for (const [i, table] of mine.tables.entries()) {
    for (const option of tableOptions) {
      compare(`model.tables[${i}].${option}`, table[option], theirs.tables[i]?.[option]);
    }
  }
  for (const { name, l2Scope } of theirs.tables) {
    if (l2Scope !== "decayed") continue;
    const why = `another run: the rows of \`${name}\` decay together there (\`l2Scope: "decayed"\`)`;
    throw expected("warmStart.from", why, from);
  }
  compare("model.kind", mine.kind, theirs.kind);
  const [layers, others] = [layersOf(mine), layersOf(theirs)];
  for (const option of Object.keys({ ...layers, ...others })) {
    compare(`model.${option}`, layers[option], others[option]);
  }
  for (const part of ["dense", "sparse"] as const) {
    compare(`optimizer.${part}.kind`, job.optimizer[part].kind, source.optimizer[part].kind);
    const isAveraged = ({ optimizer }: JobSpec) => (optimizer[part].ema ? "given" : undefined);
    compare(`optimizer.${part}.ema`, isAveraged(job), isAveraged(source));
  }
  // The momentum is a tensor of the dense part, as the average is: each would be read as the other.
  const hasMomentum = ({ optimizer: { dense } }: JobSpec) => {
    return dense.kind === "sgd" && dense.momentum > 0 ? "above 0" : undefined;
  };
  compare("optimizer.dense.momentum", hasMomentum(job), hasMomentum(source));
  const [topk, before] = [job.exchange.topk, source.exchange.topk];
  if (topk !== undefined && before !== undefined) {
    // They decide the lengths of the residuals.
    compare("slices", job.slices, source.slices);
    compare("exchange.topk.groups", topk.groups, before.groups);
  }
  checkHashes(job, source);
}

/** Options that decide the dense parameters of a model. */
function layersOf(model: JobSpec["model"]): Fields {
  const { kind: _kind, tables: _tables, precision: _bits, ...layers } = model;
  return { ...layers, dropout: undefined, path: undefined };
}

function wordOf({ model }: JobSpec): string {
  return model.features === undefined ? "table" : "feature";
}

/** Throws where a column maps its ids to rows in another way than in the job of the earlier run. */
function checkHashes(job: JobSpec, source: JobSpec): void {
  const idsOf = ({ data, model }: JobSpec) =>
    shapesOf(model).map((shape) => {
      if (data.kind === "synthetic") return undefined;
      if (data.kind === "criteo-tsv") return "hash";
      const column = categoricalOf(data).find((one) => feeds(one, shape));
      return column?.ids === "integer" ? `integer, offset ${column.offset}` : column?.ids;
    });
  const [mine, theirs] = [idsOf(job), idsOf(source)];
  const at = mine.findIndex((ids, i) => {
    return ids !== undefined && theirs[i] !== undefined && ids !== theirs[i];
  });
  if (at < 0) return;
  const message =
    `Expected the ids of ${wordOf(job)} \`${shapesOf(job.model)[at]?.name}\` to be read as in the job of ` +
    `${job.warmStart?.from} (${theirs[at]}), as its rows belong to these ids, got ${mine[at]}`;
  throw new InvalidOptionError("data.categorical", message);
}
