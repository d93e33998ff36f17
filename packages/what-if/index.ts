// The public interface of packages/what-if: other code may import from this file only.

export { type CostOptions, costsOfCluster } from "./costs/costs-of-cluster.ts";
export { constantsOf, withCachesOf } from "./hardware/constants-of.ts";
export { hardwareNames, readHardware } from "./hardware/read-hardware.ts";
export { paperModel } from "./papers/models.ts";
export { type PredictOptions, predictCluster, simulateCluster } from "./predict/predict-cluster.ts";
export { boundOf } from "./tasks/machine-level.ts";
export { briefProbing, calibrate, type MachineOptions } from "./tasks/task-probes.ts";
