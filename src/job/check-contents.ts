// Checks that the data of a job is still the data that its checkpoints were trained on. The
// identity of a job has only the paths of its data, but a run may only continue with the contents
// that it began with.

import {
  changedFiles,
  type DataContents,
  haveSameSamples,
  type RunContents,
} from "../data/contents.ts";
import { shownPath } from "../data/remote/addresses.ts";
import { DataChangedError } from "../errors/errors.ts";
import type { JobSpec } from "./job.ts";

/**
 * Compares the present data of a job, `now`, with the data of its checkpoints in `directory`;
 * `then` is undefined if there is no checkpoint, or none that records its data.
 * @throws DataChangedError naming the file that changed, the directory and the ways out
 */
export function checkContents(
  { data, evaluation }: Pick<JobSpec, "data" | "evaluation">,
  then: RunContents | undefined,
  now: RunContents,
  directory: string,
): void {
  if (then === undefined) return;
  if (!haveSameSamples(then.training, now.training)) {
    const { name, what } = changeOf("training", data, then.training, now.training);
    const sentence =
      `${what} since the checkpoints in ${directory} were trained: train on it as it is now, as a ` +
      "new job in another `checkpoint.directory`, or put the old contents back";
    throw new DataChangedError(name, directory, sentence);
  }
  for (const [part, section] of Object.entries({ evaluation, test: evaluation?.test })) {
    const named = part === "test" ? "test" : "evaluation";
    const [before, after] = [then[named], now[named]];
    if (section?.data === undefined || before === undefined || after === undefined) continue;
    if (haveSameSamples(before, after)) continue;
    const { name, what } = changeOf(named, section.data, before, after);
    const sentence =
      `${what} since the run in ${directory} was evaluated: name another \`checkpoint.directory\` ` +
      "for a new run, or the old contents for this one; `osiris eval " +
      `${directory} --data FILE\` evaluates the model on any file`;
    throw new DataChangedError(name, directory, sentence);
  }
}

/**
 * Like `checkContents`, for the data that a trained model is evaluated on by default: the held-out
 * part of the job's training data, or the job's own evaluation or test data.
 * @throws DataChangedError
 */
export function checkHeldOut(
  { data, evaluation }: Pick<JobSpec, "data" | "evaluation">,
  which: "evaluation" | "test",
  then: RunContents | undefined,
  now: DataContents,
  directory: string,
): void {
  const held = (which === "test" ? evaluation?.test : evaluation)?.data;
  const part = held === undefined ? "training" : which;
  const recorded = then?.[part];
  if (recorded === undefined || haveSameSamples(recorded, now)) return;
  const { name, what } = changeOf(part, held ?? data, recorded, now);
  const sentence =
    `${what} since the run in ${directory}: name the data to evaluate on, or put the old ` +
    "contents back";
  throw new DataChangedError(name, directory, sentence);
}

/** The name of the data for display, and its change as the beginning of a sentence. */
function changeOf(
  part: "training" | "evaluation" | "test",
  data: JobSpec["data"],
  then: DataContents,
  now: DataContents,
): { readonly name: string; readonly what: string } {
  const counts = `${then.samples} samples then, ${now.samples} now`;
  if (data.kind === "synthetic") {
    const name = `the generated ${part} data`;
    return { name, what: `The generated ${part} data have changed (${counts})` };
  }
  const [first = 0, ...others] = changedFiles(then, now);
  const name = shownPath(data.paths[first] ?? "");
  const isSameText = then.text !== undefined && then.text === now.text;
  const [before, after] = [then.files[first]?.path, now.files[first]?.path];
  if (before !== undefined && before !== after) {
    const what = `The ${part} file ${name} took the place of ${before}, with other samples (${counts}),`;
    return { name, what };
  }
  const more = others.length === 0 ? "" : ` and ${others.length} more`;
  if (isSameText) {
    return { name, what: `The ${part} file ${name} is read in another way (${counts})` };
  }
  return { name, what: `The ${part} file ${name}${more} has other contents (${counts})` };
}
