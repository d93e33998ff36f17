// Warnings about the data on which a trained model was evaluated.

import type { DataWarning } from "../../../src/data/cache/cache-format.ts";
import { findCache } from "../../../src/data/cache/prepare-cache.ts";
import { contentsOf, type DataContents, haveSameSamples } from "../../../src/data/contents.ts";
import { shownPath } from "../../../src/data/remote/addresses.ts";
import { type EvaluationData, evaluationDataOf } from "../../../src/job/evaluation-options.ts";
import { namedFiles } from "../../../src/job/job-files.ts";
import { shapesOf } from "../../../src/model/features.ts";
import type { Model } from "../model.ts";

/**
 * Warns if `data`, on which `model` was evaluated just now, are its training samples, or contain a
 * file with the same contents as a training file. Uses the caches only; files on servers are not
 * requested again.
 */
export async function trainingDataWarnings(
  model: Model,
  data: EvaluationData,
  dataDiffers = false,
): Promise<DataWarning[]> {
  const trained = model.contents?.training;
  const shapes = shapesOf(model.job.model);
  const named = await namedFiles(evaluationDataOf(data, model.job.data, shapes, dataDiffers));
  const report = findCache(named, shapes);
  if (trained === undefined || report === undefined) return [];
  const what = sharedWith(trained, contentsOf(report));
  if (what === undefined) return [];
  const held = model.job.evaluation?.data === undefined ? ", but for those that were held out" : "";
  const message =
    `${what} that the model was trained on${held}: the figures show what it remembers, not how ` +
    "well it predicts; evaluate on other data";
  return [{ code: "EVALUATION_EQUALS_TRAINING", message }];
}

/** Describes what data have in common with the training data; undefined: nothing. */
function sharedWith(trained: DataContents, now: DataContents): string | undefined {
  if (haveSameSamples(trained, now)) return "These are the samples";
  const texts = new Set(trained.files.map(({ sha256 }) => sha256));
  const file = now.files.find(({ sha256 }) => texts.has(sha256));
  return file === undefined ? undefined : `${shownPath(file.path)} has the text of a file`;
}
