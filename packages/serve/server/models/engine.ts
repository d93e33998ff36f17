// The interface of the engine behind a served model. packages/serve/model implements it; a bench
// puts another runtime behind the same server.

import type {
  CalibrationChoice,
  EncodedBatch,
  LoadOptions,
  SampleRecord,
} from "../../../../internal.ts";
import {
  type Ranked,
  type RankOptions,
  type Scored,
  ServedModel,
  type ServedVersion,
} from "../../model/served-model.ts";

/** An engine that scores requests, such as `ServedModel`. */
export type ScoringEngine = Pick<
  ServedModel,
  "job" | "tasks" | "version" | "predict" | "predictBatch" | "rank" | "applyDelta" | "close"
> &
  Partial<Pick<ServedModel, "onDisk" | "rowCounts" | "recalibrate" | "arithmetic">>;

/** Opens an engine for a model: options as in `ServedModel.open`. */
export type OpenEngine = (
  path: string,
  options: {
    readonly manifest?: string | undefined;
    readonly memoryBytes?: number | undefined;
    readonly tierDirectory?: string | undefined;
    readonly calibration?: CalibrationChoice | undefined;
    readonly arithmetic?: LoadOptions["arithmetic"] | undefined;
  },
) => Promise<ScoringEngine>;

/** Opens the engine of Osiris. */
export const openServedModel: OpenEngine = (path, { manifest, arithmetic, ...tiers }) =>
  ServedModel.open(path, {
    ...tiers,
    ...(manifest && { manifest }),
    ...(arithmetic && { arithmetic }),
  });

/** The samples of a request: B records, an encoded batch, or a user with candidates. */
export type Asked =
  | { readonly kind: "records"; readonly records: readonly SampleRecord[] }
  | { readonly kind: "batch"; readonly batch: EncodedBatch }
  | {
      readonly kind: "rank";
      readonly user: SampleRecord;
      readonly candidates: readonly SampleRecord[];
      readonly options: RankOptions;
    };

/** Scores (B) or (B,T) of one version; for a ranking also `order`. */
export type Answered = Scored & Partial<Pick<Ranked, "order">>;

export type { RankOptions, ServedVersion };

/** The number of samples of a request. */
export function samplesOf(asked: Asked): number {
  switch (asked.kind) {
    case "records":
      return asked.records.length;
    case "batch":
      return asked.batch.samples;
    case "rank":
      return asked.candidates.length;
    default:
      return asked satisfies never;
  }
}

/** Scores one request in a call of its own. */
export function scoreAlone(engine: ScoringEngine, asked: Asked): Promise<Answered> {
  switch (asked.kind) {
    case "records":
      return engine.predict(asked.records);
    case "batch":
      return engine.predictBatch(asked.batch);
    case "rank":
      return engine.rank(asked.user, asked.candidates, asked.options);
    default:
      return asked satisfies never;
  }
}
