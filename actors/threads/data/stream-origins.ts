// Origin of the samples of each stream of a run: enough for any process to make them again.

import type { DataContents } from "../../../src/data/contents.ts";
import type { SamplesOrigin } from "../../../src/data/open-samples.ts";
import { keyColumnOf } from "../../../src/data/split-keys.ts";
import { InputUnusableError } from "../../../src/errors/errors.ts";
import type { Stream } from "../../../src/exchange/batch-ring.ts";
import { shapesOf } from "../../../src/model/features.ts";
import type { DataPlan, DatasetPlan, GenerationSpec } from "../generation-spec.ts";
import type { DataPart } from "./index-program.ts";

/** Origin of the samples of a stream. Plain data, sent over the wire. */
export interface StreamOrigin extends SamplesOrigin {
  /** The file of the samples' cache or index. */
  readonly path: string;
  /** Digest of the samples, from their cache. */
  readonly digest: string;
}

export type StreamOrigins = { readonly [Name in Stream]?: StreamOrigin | undefined };

/** The files of a run's data, and the digests of their samples. */
export interface DataFiles extends Pick<GenerationSpec, "job"> {
  readonly data: Pick<DataPlan, "training" | "evaluation" | "test" | "contents" | "means">;
}

/** The origins of a generation's streams. */
export function streamOriginsOf({
  data,
  job,
}: DataFiles): StreamOrigins & { readonly training: StreamOrigin } {
  const { training, evaluation, test, contents } = data;
  const { evaluation: section } = job;
  const tables = shapesOf(job.model);
  const trained = { options: job.data, tables, key: keyColumnOf(section?.split) };
  /** `own`: contents of separate data; left out: the samples are held out of the training data. */
  const held = (plan: DatasetPlan, own: DataContents | undefined, options = job.data) =>
    own === undefined
      ? { path: plan.path, digest: contents.training.digest, ...trained }
      : { path: plan.path, digest: own.digest, options, tables };
  return {
    training: { path: training.path, digest: contents.training.digest, ...trained },
    evaluation: evaluation && held(evaluation, contents.evaluation, section?.data),
    test: test && held(test, contents.test, section?.test?.data),
  };
}

/** A cache or index that the first host has made. */
export interface FoundCache extends Pick<StreamOrigin, "path" | "digest"> {
  readonly part: DataPart;
}

/** The caches of a run's data: held-out samples of the training data have none of their own. */
export function cachesOf({ training, evaluation, test, contents }: DataPlan): FoundCache[] {
  const of = (part: DataPart, plan: DatasetPlan | undefined, own: DataContents | undefined) =>
    plan === undefined || own === undefined ? [] : [{ part, path: plan.path, digest: own.digest }];
  return [
    ...of("training", training, contents.training),
    ...of("evaluation", evaluation, contents.evaluation),
    ...of("test", test, contents.test),
  ];
}

/** The error of a host whose data are not those of the first host. */
export function otherSamples(path: string): InputUnusableError {
  const message =
    `The data cache ${path} has other samples on this host than on the first host: give all hosts ` +
    "the same files, or let `data.cache` be one directory that they share";
  return new InputUnusableError(path, message);
}
