// Checks that tables whose rows all decay in closed form (row-decay.ts) fit the rest of their job:
// the remaining share of the rows must be a function of the step alone, and the optimizer must
// decay weights independently of their gradients.

import type { SparseOptimizerSpec } from "../embedding/tables/options.ts";
import { InvalidOptionError } from "../errors/errors.ts";
import type { ExchangeSpec } from "../exchange/options.ts";
import { isFloat8 } from "../kernels/contract/precision.ts";
import type { ModelSpec } from "../model/options.ts";
import { expected } from "../ports/check-options.ts";

/** The part of a job that must fit the decay. */
interface DecayingJob {
  readonly model: Pick<ModelSpec, "tables">;
  readonly optimizer: { readonly sparse: SparseOptimizerSpec };
  readonly exchange: Pick<ExchangeSpec, "forward">;
  readonly evaluation?: { readonly reduceOnPlateau?: unknown } | undefined;
  readonly warmStart?: unknown;
}

/** @throws InvalidOptionError */
export function checkDecay(job: DecayingJob): void {
  const { model, optimizer, evaluation, warmStart, exchange } = job;
  const isWide = exchange.forward !== "float16" && !isFloat8(exchange.forward);
  const { sparse } = optimizer;
  const where = 'where rows decay together (`l2Scope: "decayed"`)';
  const wrong = model.tables.flatMap((table, i) => {
    if (table.l2Scope !== "decayed") return [];
    const { precision, staleness, dynamic, l2 } = table;
    const own = `model.tables[${i}]`;
    const kinds = ["sgd", "adagrad", "rowWiseAdagrad", "adam", "partialRowWiseAdam"];
    const weightDecay = "weightDecay" in sparse ? sparse.weightDecay : 0;
    const rules: [option: string, isGood: boolean, wanted: string, value: unknown][] = [
      ["optimizer.sparse.kind", kinds.includes(sparse.kind), `one of ${kinds}`, sparse.kind],
      ["optimizer.sparse.ema", sparse.ema === undefined, "left out", sparse.ema],
      ["optimizer.sparse.weightDecay", weightDecay === 0, "0, as `l2` is the decay,", weightDecay],
      [`${own}.l2`, sparse.learningRate * l2 < 1, "less than 1 / learningRate", l2],
      [`${own}.precision`, precision !== "float16", "one of a wider range", precision],
      [`${own}.staleness`, staleness === 0, "0", staleness],
      [`${own}.dynamic`, dynamic === undefined, "left out, as new ids need new rows,", dynamic],
      ["exchange.forward", isWide, "one of a wider range", exchange.forward],
      [
        "evaluation.reduceOnPlateau",
        evaluation?.reduceOnPlateau === undefined,
        "left out, as rates must follow from the step,",
        evaluation?.reduceOnPlateau,
      ],
      ["warmStart", warmStart === undefined, "left out", warmStart],
    ];
    return rules.flatMap(([option, isGood, wanted, value]) =>
      isGood ? [] : expected(option, `${wanted} ${where}`, value).problems,
    );
  });
  if (wrong.length > 0) throw InvalidOptionError.ofAll(wrong);
}
