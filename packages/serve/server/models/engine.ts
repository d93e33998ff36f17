// The interface of the engine behind a served model. packages/serve/model implements it; a bench
// puts another runtime behind the same server.

import type { EncodedBatch, SampleRecord } from "../../../../internal.ts";
import type {
  Ranked,
  RankOptions,
  Scored,
  ServedModel,
  ServeOptions,
} from "../../model/served-model.ts";

/** An engine that scores requests, such as `ServedModel`. */
export type ScoringEngine = Pick<
  ServedModel,
  "job" | "tasks" | "version" | "predict" | "predictBatch" | "rank" | "applyDelta" | "close"
> &
  Partial<Pick<ServedModel, "onDisk" | "rowCounts" | "recalibrate" | "arithmetic">>;

/** Opens an engine for a model, as `ServedModel.open` does. */
export type OpenEngine = (path: string, options: ServeOptions) => Promise<ScoringEngine>;

/** The samples of a request: B records, an encoded batch, or a user with candidates. */
export type ScoringCall =
  | { readonly kind: "records"; readonly records: readonly SampleRecord[] }
  | { readonly kind: "batch"; readonly batch: EncodedBatch }
  | {
      readonly kind: "rank";
      readonly user: SampleRecord;
      readonly candidates: readonly SampleRecord[];
      readonly options: RankOptions;
    };

/** Scores (B) or (B,T) of one version; for a ranking also `order`. */
export type ScoringResult = Scored & Partial<Pick<Ranked, "order">>;

/** The number of samples of a request. */
export function samplesOf(call: ScoringCall): number {
  switch (call.kind) {
    case "records":
      return call.records.length;
    case "batch":
      return call.batch.samples;
    case "rank":
      return call.candidates.length;
    default:
      return call satisfies never;
  }
}

/** Scores one request in a call of its own. */
export function scoreAlone(engine: ScoringEngine, call: ScoringCall): Promise<ScoringResult> {
  switch (call.kind) {
    case "records":
      return engine.predict(call.records);
    case "batch":
      return engine.predictBatch(call.batch);
    case "rank":
      return engine.rank(call.user, call.candidates, call.options);
    default:
      return call satisfies never;
  }
}
