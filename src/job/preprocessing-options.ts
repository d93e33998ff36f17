// The options of the preprocessing service of a job.

import { z } from "zod";

export const preprocessingOptions = z
  .strictObject({
    /** Workers of the run, at least. */
    workersMin: z.int().min(0).max(64).default(1),
    /** At most: between the two, as many as readers need. */
    workersMax: z.int().min(0).max(64).default(4),
    /** Whether hosts run workers as threads, as many as processes leave to be wished for. */
    threads: z.boolean().default(true),
    /** How long a worker may take for a split. */
    splitDeadlineMs: z.int().min(100).max(3_600_000).default(20_000),
    /** Failures of one split until the run ends with its name. */
    attemptsMax: z.int().min(1).max(100).default(3),
  })
  .superRefine(({ workersMin, workersMax }, context) => {
    if (workersMin <= workersMax) return;
    const message = `at least \`workersMin\`, ${workersMin}`;
    context.addIssue({ code: "custom", path: ["workersMax"], message, input: workersMax });
  });

export type PreprocessingOptions = z.input<typeof preprocessingOptions>;
