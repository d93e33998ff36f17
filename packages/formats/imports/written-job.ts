// Writes the job of an imported model as a YAML file. It continues to train the model; a derived
// job needs the user's data paths first.

import { Document, isMap, isSeq } from "yaml";
import { type Disk, InputUnusableError, type JobOptions, writeWhole } from "../../../internal.ts";

/** The facts in the comment at the head of the file. */
interface About {
  readonly file: string;
  readonly directory: string;
  readonly isMade: boolean;
}

/** Checks that `path` is free, so that no file of the user is lost. @throws InputUnusableError */
export function checkJobFile(path: string, disk: Disk): void {
  if (!disk.exists(path)) return;
  const message = `Expected a new file for the job, but ${path} is there; name another one`;
  throw new InputUnusableError(path, message);
}

/** Writes the job. @throws InputUnusableError where the file cannot be written */
export async function writeJob(
  path: string,
  job: JobOptions,
  about: About,
  disk: Disk,
): Promise<void> {
  const bytes = new TextEncoder().encode(textOf(job, about));
  await writeWhole(disk, path, async (file) => file.write(bytes, 0));
}

function textOf(job: JobOptions, { file, directory, isMade }: About): string {
  const own = {
    ...job,
    checkpoint: { ...job.checkpoint, directory: `${directory}-trained` },
    warmStart: { from: directory },
  };
  const document = new Document(own);
  const made =
    ` Made by \`osiris import\` of ${file}: layers and tables by the shapes of its tensors. Name\n` +
    " your own data, where ids are rows of the tables, and a learning rate; docs/jobs.md has every option.\n";
  const trains = ` \`osiris train THIS-FILE\` goes on training the model in ${directory}.`;
  document.commentBefore = `${isMade ? made : ` The job of ${file}.\n`}${trains}`;
  for (const path of [["model"], ["data"]]) {
    const section = document.getIn(path);
    if (!isMap(section)) continue;
    for (const { value } of section.items) {
      if (!isSeq(value)) continue;
      const isFlat = value.items.every((item) => !isMap(item));
      if (isFlat) value.flow = true;
      for (const item of value.items) if (isMap(item)) item.flow = true;
    }
  }
  return document.toString({ lineWidth: 100 });
}
