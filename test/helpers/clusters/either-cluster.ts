// The interface that tests of faults need of a cluster, with real or virtual threads and time.

import type { Client } from "../../../actors/client/client.ts";
import type {
  BreakableLauncher,
  ClusterOptions,
  Incident,
  JobOptions,
  Run,
  Target,
} from "../../../internal.ts";
import type { Launcher } from "../../../src/ports/launcher.ts";
import type { TestCluster } from "./clusters.ts";

export interface EitherCluster extends AsyncDisposable {
  readonly cluster: {
    readonly client: Pick<Client, "inspect">;
    submit(job: JobOptions): Promise<Run>;
    /** Resolves when every thread has ended. */
    close(): Promise<void>;
  };
  readonly threads: Pick<BreakableLauncher, "kill" | "goOn" | "running" | "started" | "plan">;
  readonly incidents: readonly Incident[];
  readonly job: TestCluster["job"];
  /** Starts one more host process with `devices` devices, which joins the cluster. */
  join(devices: number): Promise<JoinedHost>;
  /** Makes an actor throw. */
  throwIn(target: Target, reason: string): Promise<void>;
  /** Cuts the broker off for a while. */
  cutBroker(): Promise<void>;
}

export interface EitherOptions extends Pick<ClusterOptions, "minDevices" | "faultsAllowed"> {
  /** Wraps the launcher of threads. */
  readonly over?: (launcher: Launcher) => Launcher;
}

export interface JoinedHost {
  kill(): void;
  /** Announces that the host leaves; the host ends once no run needs it. */
  leave(): void;
  readonly ended: Promise<unknown>;
}
