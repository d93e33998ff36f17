// The bench of serving: predictions inside a program and over HTTP, rankings, rows on disk, and
// pauses while deltas are applied.

import { type Bench, positiveOption } from "../../../bench/bench.ts";
import { type EngineOptions, engineMeasurements } from "./engine.bench.ts";
import { httpMeasurements } from "./http.bench.ts";
import { pauseMeasurement } from "./pauses.bench.ts";
import { tierMeasurement } from "./tiers.bench.ts";

export const serveBench: Bench<EngineOptions> = {
  question:
    "the cost of predictions beside ONNX Runtime and PyTorch, during a delta, and from disk",
  options: [
    positiveOption("--rows <count>", "rows of each table", 20_000),
    positiveOption("--rounds <count>", "turns of each side", 2),
    positiveOption("--seconds <seconds>", "time of each side in a round", 1),
  ],
  full: { rounds: 5, seconds: 3 },
  measurements(options) {
    return [
      ...engineMeasurements(options),
      pauseMeasurement(options.rounds),
      tierMeasurement(options),
      ...httpMeasurements(options),
    ];
  },
};
