// The bench of serving: predictions inside a program and over HTTP, rankings, rows on disk, and
// pauses while deltas are applied.

import { Option } from "commander";
import { type Bench, positive } from "../../../bench/bench.ts";
import { type EngineOptions, engineMeasurements } from "./engine.bench.ts";
import { httpMeasurements } from "./http.bench.ts";
import { pauseMeasurement } from "./pauses.bench.ts";
import { tierMeasurement } from "./tiers.bench.ts";

export const serveBench: Bench<EngineOptions> = {
  question:
    "the cost of predictions beside ONNX Runtime and PyTorch, during a delta, and from disk",
  options: [
    new Option("--rows <count>", "rows of each table").argParser(positive).default(20_000),
    new Option("--rounds <count>", "turns of each side").argParser(positive).default(2),
    new Option("--seconds <seconds>", "time of each side in a round")
      .argParser(positive)
      .default(1),
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
