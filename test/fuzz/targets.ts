// All targets of the fuzzer.

import { messageTargets } from "./message-targets.ts";
import { modelTargets } from "./model-targets.ts";
import { nativeTargets } from "./native-targets.ts";
import { tableTargets } from "./table-targets.ts";
import type { Target } from "./target.ts";
import { tenantTargets } from "./tenant-targets.ts";

export const targets: readonly Target[] = [
  ...[...nativeTargets, ...messageTargets, ...tableTargets, ...modelTargets, ...tenantTargets],
];
