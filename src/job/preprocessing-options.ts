// The job options of the preprocessing service: its workers, and their deadlines.

import { z } from "zod";

export const preprocessingOptions = z
  .strictObject({
    workersMin: z
      .int()
      .min(0)
      .max(64)
      .default(1)
      .describe(
        "With a section `preprocessing`, workers make the samples of data without a cache, and not the readers; it changes no bit. Workers of the run, at least.",
      ),
    workersMax: z
      .int()
      .min(0)
      .max(64)
      .default(4)
      .describe("At most: between the two, as many as the readers need."),
    threads: z
      .boolean()
      .default(true)
      .describe(
        "Hosts run workers as threads, as many as `osiris dpp-worker` processes leave to be wished for; `false`: processes alone.",
      ),
    splitDeadlineMs: z
      .int()
      .min(100)
      .max(3_600_000)
      .default(20_000)
      .describe("How long a worker may take for a split, in milliseconds."),
    attemptsMax: z
      .int()
      .min(1)
      .max(100)
      .default(3)
      .describe("Failures of one split until the run ends with its name."),
  })
  .superRefine(({ workersMin, workersMax }, context) => {
    if (workersMin <= workersMax) return;
    const message = `at least \`workersMin\`, ${workersMin}`;
    context.addIssue({ code: "custom", path: ["workersMax"], message, input: workersMax });
  });

export type PreprocessingOptions = z.input<typeof preprocessingOptions>;
