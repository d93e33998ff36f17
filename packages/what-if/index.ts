// The public interface of packages/what-if: other code may import from this file only.

export { constantsOf } from "./hardware/constants-of.ts";
export { hardwareNames, readHardware } from "./hardware/read-hardware.ts";
export { simulateCluster } from "./predict/predict-cluster.ts";
export { boundOf } from "./tasks/machine-level.ts";
export { briefProbing, calibrate, type MachineOptions } from "./tasks/task-probes.ts";
