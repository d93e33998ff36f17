// Scores decoded samples of text and columnar files batch by batch, and accumulates the report.

import {
  BatchRows,
  denseOf,
  type LineFault,
  type Model,
  Sample,
  sentenceOf,
  shapesOf,
  weightedOf,
  wideOf,
} from "../../../internal.ts";
import {
  noNumberBecause,
  type PredictFileOptions,
  type PredictReport,
  predictedValues,
  TaskMeans,
} from "./predict-report.ts";

/** A batch of samples to decode. */
export interface DecodedSamples {
  readonly count: number;
  /** Decodes the features at `index` into `sample`. Returns the fault, if there is one. */
  decode(sample: Sample, index: number): LineFault | undefined;
  /** The line or row number in the file, from 1. */
  lineOf(index: number): number;
}

export class SampleScorer {
  readonly #model: Model;
  readonly #options: PredictFileOptions;
  readonly #means: TaskMeans;
  readonly #sample: Sample;
  /** The file that is being scored. */
  #path = "";
  #bad = 0;
  #firstBad: PredictReport["firstBad"];

  constructor(model: Model, options: PredictFileOptions) {
    const { data, model: spec } = model.job;
    this.#model = model;
    this.#options = options;
    this.#means = new TaskMeans(model.tasks);
    this.#sample = new Sample({ dense: denseOf(data), features: shapesOf(spec).length });
  }

  /** Starts a file; its path is used in reports of bad samples. */
  begin(path: string): void {
    this.#path = path;
  }

  report(): Pick<PredictReport, "samples" | "bad" | "firstBad" | "means"> {
    return { ...this.#means.report(), bad: this.#bad, firstBad: this.#firstBad };
  }

  /** The predictions (`predictedValues`) of each sample; undefined: the sample is bad. */
  async score({ count, decode, lineOf }: DecodedSamples): Promise<(number[] | undefined)[]> {
    const { job, means, tasks, numeric } = this.#model;
    const tables = shapesOf(job.model);
    const shape = { dense: denseOf(job.data), wide: wideOf(tables), means };
    const rows = new BatchRows(count, { ...shape, weighted: weightedOf(job.data, tables) });
    const faults = Array.from({ length: count }, (_, i) => {
      const fault = decode(this.#sample, i);
      if (fault !== undefined) this.#sample.clear(); // A bad sample is scored with empty bags.
      rows.add(i, this.#sample);
      return fault;
    });
    const logits = await this.#model.logitsOf(rows.batch());
    return faults.map((fault, i) => {
      const own = logits.subarray(i * tasks.length, (i + 1) * tasks.length);
      const values = predictedValues(own, numeric, this.#options);
      const reason = fault === undefined ? noNumberBecause(values) : sentenceOf(fault);
      if (reason === undefined) {
        this.#means.add(values);
        return values;
      }
      this.#bad++;
      this.#firstBad ??= { file: this.#path, line: lineOf(i), reason };
      return undefined;
    });
  }
}
